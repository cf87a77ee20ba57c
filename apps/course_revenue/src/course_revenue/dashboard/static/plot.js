// Small plots: a line over time, as one path of an SVG. Heights are told apart exactly before they become pixels.

const WIDTH = 300;
const HEIGHT = 60;
const EDGE = 3;

/**
 * Draws values (BigInt or numbers) over times in ms.
 * `floor` is a value that is always within the plot, such as 0 for counts.
 */
export function plot(svg, times, values, { floor = null, from = null, to = null } = {}) {
  if (!svg.firstChild) {
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    for (const name of ["area", "line"]) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", name);
      svg.append(path);
    }
  }
  const [area, line] = svg.children;
  if (!values.length) {
    area.setAttribute("d", "");
    line.setAttribute("d", "");
    return;
  }
  let low = floor ?? values[0];
  let high = floor ?? values[0];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const start = from ?? times[0];
  const width = Math.max(1, (to ?? times[times.length - 1]) - start);
  const height = Number(high - low);
  const points = thinned(times, values).map(([time, value]) => {
    const x = ((time - start) / width) * WIDTH;
    const share = height > 0 ? Number(value - low) / height : floor === null ? 0.5 : 0;
    return [x.toFixed(1), (HEIGHT - EDGE - share * (HEIGHT - 2 * EDGE)).toFixed(1)];
  });
  if (points.length === 1) points.push([WIDTH.toFixed(1), points[0][1]]);
  const path = points.map(([x, y]) => `${x} ${y}`).join("L");
  line.setAttribute("d", `M${path}`);
  area.setAttribute("d", `M${points[0][0]} ${HEIGHT}L${path}L${points[points.length - 1][0]} ${HEIGHT}Z`);
}

/** No more points than pixels. */
function thinned(times, values) {
  const step = Math.max(1, Math.floor(times.length / WIDTH));
  const kept = [];
  for (let at = (times.length - 1) % step; at < times.length; at += step) kept.push([times[at], values[at]]);
  return kept;
}
