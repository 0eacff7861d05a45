"""Pictures: their content as plain data (`data`, `build`), their look (`style`), and the Matplotlib and Plotly back
ends."""
