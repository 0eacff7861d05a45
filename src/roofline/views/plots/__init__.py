"""Pictures: what to draw as plain data (`data`, `build`), how it looks (`style`), Matplotlib and Plotly to draw it."""
