FROM python:3.12.11-slim-bookworm
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir '.[web,frames]' && rm -rf /build && useradd --uid 10001 --create-home roofline
WORKDIR /home/roofline
USER roofline
EXPOSE 8600
ENTRYPOINT ["roofline", "web", "--no-browser", "--host", "0.0.0.0", "--port", "8600"]
