# The page and its REST API. Build it from an archive of a tag, which knows its version: git archive v1.2.3 | docker build -
FROM python:3.12.11-slim-bookworm@sha256:519591d6871b7bc437060736b9f7456b8731f1499a57e22e6c285135ae657bf7
WORKDIR /build
COPY pyproject.toml hatch_build.py .git_archival.txt README.md LICENSE NOTICE.md ./
COPY release/addresses.toml release/
COPY src src
# The package is this checkout, and pyproject.toml bounds what it brings:
# hadolint ignore=DL3013
RUN pip install --no-cache-dir '.[web,frames]' && rm -rf /build && useradd --uid 10001 --create-home roofline
WORKDIR /home/roofline
USER 10001
EXPOSE 8600
ENTRYPOINT ["roofline", "web", "--no-browser", "--host", "0.0.0.0", "--port", "8600"]
