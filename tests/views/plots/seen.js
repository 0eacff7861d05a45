// What Plotly has drawn: for each pair of axes its box, the marks' points in pixels from the box's upper left, and the
// colours that some pixels of it must have; the texts' boxes; the boxes of each axis's tick labels.
() => {
  const plot = document.querySelector(".js-plotly-plot"), layout = plot._fullLayout, areas = {};
  const axis = (id) => layout[id[0] + "axis" + id.slice(1)];
  const area = (x, y) => {
    const box = [axis(x)._offset, axis(y)._offset, axis(x)._length, axis(y)._length];
    return (areas[x + y] ??= { box, points: [], colours: [] });
  };
  layout._subplots.cartesian.forEach((id) => area(...id.split(/(?=y)/)));

  for (const drawn of plot.calcdata) {
    const trace = drawn[0].trace, across = axis(trace.xaxis), up = axis(trace.yaxis);
    const within = area(trace.xaxis, trace.yaxis);
    const add = (x, y) => within.points.push([across.c2p(x), up.c2p(y)]);
    const dye = (colour, opacity = 1) => {
      const alpha = /rgba\(.*,\s*([\d.]+)\)/.exec(colour);
      within.colours.push([colour, opacity * (alpha ? Number(alpha[1]) : 1)]);
    };
    if (trace.visible !== true || trace.opacity === 0) continue;
    if (trace.type === "heatmap") {
      const { x, y } = drawn[0];
      x.forEach((v) => add(v, y[0]));
      y.forEach((v) => add(x[0], v));
      trace.colorscale.forEach(([, colour]) => dye(colour));
    } else if (trace.type === "bar") {
      const bars = drawn.filter((bar) => bar.s);
      bars.forEach((bar) => add(bar.x, bar.y));
      const start = (bar) => (across.type === "log" ? 0 : across.c2p(bar.b));
      if (bars.some((bar) => Math.abs(across.c2p(bar.x) - start(bar)) >= 4)) dye(trace.marker.color, trace.opacity);
    } else {
      drawn.filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y)).forEach((p) => add(p.x, p.y));
      if (trace.fill && trace.fill !== "none") dye(trace.fillcolor);
      if (trace.mode.includes("lines") && trace.line.width >= 2) dye(trace.line.color);
      if (trace.mode === "markers") dye(trace.marker.color, trace.marker.opacity);
      if (trace.mode === "text") dye(trace.textfont.color);
    }
  }
  for (const shape of layout.shapes) {
    if (shape.type === "path") continue;
    const [x, y] = [shape.xref, shape.yref].map((ref) => ref.split(" ")[0]);
    const on = (id, ref, value, length) => (ref === id ? axis(id).c2p(axis(id).d2c(value)) : value * length);
    const within = area(x, y);
    for (const [a, b] of [[shape.x0, shape.y0], [shape.x1, shape.y1]])
      within.points.push([on(x, shape.xref, a, within.box[2]), on(y, shape.yref, b, within.box[3])]);
    if (shape.line.width >= 2) within.colours.push([shape.line.color, 1]);
  }

  const boxed = (text) => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.top, box.right, box.bottom];
  };
  const written = (selector) => [...document.querySelectorAll(selector)].filter((t) => t.textContent.trim()).map(boxed);
  const ticks = layout._subplots.xaxis.map((id) => written(`.${id}tick text`));
  layout._subplots.yaxis.forEach((id) => ticks.push(written(`.${id}tick text`)));
  return { areas, texts: written(".main-svg text"), ticks };
}
