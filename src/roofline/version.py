"""The version of the package: that of the tag it was built from."""

try:
    from roofline._version import __version__
except ModuleNotFoundError:  # a checkout that nobody installed
    __version__ = "0.1.0+untagged"

__all__ = ["__version__"]
