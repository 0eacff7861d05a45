# Template: `python release/recipes.py` fills in what stands between @ signs. Then
# `brew update-python-resources roofline` writes the resources of the dependencies, below `depends_on`.
class Roofline < Formula
  include Language::Python::Virtualenv

  desc "How long a transformer takes on a machine, from its config.json"
  homepage "@REPOSITORY@"
  url "@REPOSITORY@/releases/download/v@VERSION@/@NAME@-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "numpy"
  depends_on "python-matplotlib"
  depends_on "python@3.13"

  def install
    virtualenv_install_with_resources
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/roofline --version")
    assert_match "124,439,808 parameters", shell_output("#{bin}/roofline analyze openai-community/gpt2")
  end
end
