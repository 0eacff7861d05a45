"""How a model is spread over ranks: degrees of parallelism, and the smaller model that one rank holds."""
