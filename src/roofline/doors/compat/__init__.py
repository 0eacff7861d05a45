"""Commands and functions of earlier tools, same options and same digits, as thin over the library as can be."""
