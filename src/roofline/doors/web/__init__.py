"""The web page and REST API of `roofline web`: FastAPI over the library, and ES modules without a build step."""
