"""The page and its REST API, `roofline web`: FastAPI over the library, ES modules without a build step."""
