"""The command line, the web page, the MCP server and compatible commands of earlier tools."""
