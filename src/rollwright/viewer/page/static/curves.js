// Curves: numbers from the server, drawn by uPlot; intervals as bands; drawn again when the run or the theme changes.

const HEIGHT = 220;
const AGAIN_MS = 5000;
const plots = new Map();

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faint(hue) {
  return `${hue}33`;
}

function short(value) {
  if (value === null || value === undefined) return "—";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(5)));
}

function marksOf(marks) {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = color("--line-strong");
        ctx.fillStyle = color("--quiet");
        ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
        for (const mark of marks) {
          const x = plot.valToPos(mark.x, "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
          const isRight = x > bbox.left + bbox.width / 2;
          ctx.textAlign = isRight ? "right" : "left";
          ctx.fillText(mark.text, x + (isRight ? -4 : 4) * devicePixelRatio, bbox.top + 12 * devicePixelRatio);
        }
        ctx.restore();
      },
    },
  };
}

function options(figure, width, height) {
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 18 };
  const series = [{ label: figure.x, value: (_, v) => short(v) }];
  const bands = [];
  figure.series.forEach((one, at) => {
    const hue = color(`--plot-${at % 12}`);
    const isSparse = one.values.filter((v) => v !== null).length < 40;
    const said = (_, v, __, index) => (one.low && index !== null && v !== null && one.low[index] !== null ? `${short(v)} [${short(one.low[index])}, ${short(one.high[index])}]` : short(v));
    series.push({ label: one.name, stroke: hue, width: 1.75, spanGaps: true, points: { show: isSparse, size: 5, fill: hue }, value: said });
    if (one.low) {
      const first = series.length;
      const edge = { stroke: faint(hue), width: 1, spanGaps: true, points: { show: false }, class: "edge" };
      series.push({ ...edge, label: `${one.name}, high` }, { ...edge, label: `${one.name}, low` });
      bands.push({ series: [first, first + 1], fill: faint(hue) });
    }
  });
  return {
    width, height, series, bands,
    legend: { live: true },
    scales: { x: { time: false } },
    axes: [{ ...axis, label: figure.x, size: 34, values: (_, ticks) => ticks.map(short) }, { ...axis, label: figure.y, size: 62, values: (_, ticks) => ticks.map(short) }],
    plugins: [marksOf(figure.marks)],
    cursor: { sync: { key: "curves" }, drag: { x: true, y: false } },
  };
}

function columns(figure) {
  return [figure.places, ...figure.series.flatMap((one) => (one.low ? [one.values, one.high, one.low] : [one.values]))];
}

function note(chart, figure) {
  const parts = [figure.absent, figure.note, figure.thinned];
  if (figure.left_out > 0) parts.push(`${figure.left_out} more series are in the table`);
  chart.querySelector(".chart-note").textContent = parts.filter(Boolean).map((text) => `${text.replace(/\.$/, "")}.`).join(" ");
}

function draw(chart, figure) {
  const place = chart.querySelector(".plot");
  const open = plots.get(chart);
  open?.plot?.destroy();
  place.replaceChildren();
  note(chart, figure);
  chart.classList.toggle("drawn", figure.series.length > 0);
  let plot = null;
  if (figure.series.length > 0) {
    const height = chart.parentElement.classList.contains("wide") ? 2 * HEIGHT : HEIGHT;
    plot = new window.uPlot(options(figure, Math.max(place.clientWidth, 200), height), columns(figure), place);
  }
  plots.set(chart, { plot, figure });
}

async function load(chart) {
  if (!plots.has(chart)) chart.querySelector(".chart-note").textContent = "Reading the numbers of the run …";
  try {
    const answer = await fetch(chart.dataset.curve);
    const figure = await answer.json();
    if (!answer.ok) throw new Error(figure.error);
    const known = plots.get(chart);
    if (known && known.figure.revision === figure.revision) return figure.revision;
    draw(chart, figure);
    return figure.revision;
  } catch (error) {
    if (!plots.has(chart)) chart.querySelector(".chart-note").textContent = String(error.message);
    return null;
  }
}

// Only what is in sight is asked for; the first one makes the server read the run, the others find it read.
const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting || plots.has(entry.target)) continue;
    load(entry.target);
  }
}, { rootMargin: "200px" });

const sizes = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const open = plots.get(entry.target.closest(".chart"));
    const width = Math.floor(entry.contentRect.width);
    if (open?.plot && width > 0 && open.plot.width !== width) open.plot.setSize({ width, height: open.plot.height });
  }
});

for (const chart of document.querySelectorAll("[data-curve]")) {
  sight.observe(chart);
  sizes.observe(chart.querySelector(".plot"));
}

document.addEventListener("themed", () => {
  for (const [chart, { figure }] of plots) draw(chart, figure);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("themed")));

let waiting = null;
async function refresh(revision) {
  waiting = null;
  const seen = await Promise.all([...plots.keys()].map(load));
  // The server may answer with a state from a little earlier where reading the run anew would keep it busy.
  if (seen.some((one) => one !== null && one !== revision) && waiting === null) waiting = setTimeout(() => refresh(revision), AGAIN_MS);
}
document.addEventListener("committed", (event) => {
  if (waiting !== null) clearTimeout(waiting);
  refresh(event.detail.revision);
});
