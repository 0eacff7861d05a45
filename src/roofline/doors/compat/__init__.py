"""Commands and functions of earlier tools, with their options and digits, as thin layers over the library."""
