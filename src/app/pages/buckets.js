"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const ranks = report.provenance.world_size;
const by_id = id => document.getElementById(id);

// Text
const digits = value => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
function time_unit(seconds) {
  return seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
}
function time(seconds) {
  const [factor, unit] = time_unit(seconds);
  return `${digits(seconds * factor)} ${unit}`;
}
function bytes(count) {
  const exact = value => Number(value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2));
  if (count >= 2 ** 30) return `${exact(count / 2 ** 30)} GiB`;
  if (count >= 2 ** 20) return `${exact(count / 2 ** 20)} MiB`;
  if (count >= 2 ** 10) return `${exact(count / 2 ** 10)} KiB`;
  return `${Math.round(count)} B`;
}
function rate(value) {
  return value >= 1e9 ? `${digits(value / 1e9)} GB/s` : `${digits(value / 1e6)} MB/s`;
}
const percent = value => `${Math.round(100 * value)} %`;
// "ddp 1, 4 MiB = single": plans that are the same.
function names(plan) {
  const sizes = plan.names.filter(name => name.bucket_mb).map(name => name.bucket_mb);
  const others = plan.names.filter(name => !name.bucket_mb).map(name => name.text);
  return [...(sizes.length ? [`ddp ${sizes.join(", ")} MiB`] : []), ...others].join(" = ");
}
const span_text = spread => `${time(spread.median)} (${time(spread.min)} to ${time(spread.max)})`;

// Elements
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
class Drawing {
  constructor(holder, height, label) {
    this.width = Math.max(holder.clientWidth, 260);
    this.height = height;
    this.root = this.make("svg", {width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "img",
                                  "aria-label": label});
    holder.replaceChildren(this.root);
  }
  make(tag, attributes, title) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (title) made.append(Object.assign(document.createElementNS("http://www.w3.org/2000/svg", "title"),
                                         {textContent: title}));
    return made;
  }
  add(tag, attributes, title) { const made = this.make(tag, attributes, title); this.root.append(made); return made; }
  text(x, y, words, attributes = {}) { this.add("text", {x, y, ...attributes}).textContent = words; }
}
function legend(id, items) {
  by_id(id).replaceChildren(...items.map(([words, color, dashed]) => {
    const sign = element("i", dashed ? {class: "dash", style: `border-color: ${color}`}
                                     : {style: `background: ${color}`});
    return element("span", {}, sign, words);
  }));
}

// Axes
function round_step(span, parts) {
  const raw = span / parts, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(factor => factor * power >= raw);
}
function ticks(from, to, parts) {
  const step = round_step(to - from, parts), values = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + 1e-9 * step; ++k) values.push(k * step);
  return values;
}
// Of values by ascending x, those that leave room for their labels.
function spaced(values, place, room) {
  const kept = [];
  for (const value of values) if (!kept.length || place(value) - place(kept[kept.length - 1]) >= room) kept.push(value);
  return kept;
}
function y_axis(drawing, place, values, left, right, label) {
  for (const value of values) {
    drawing.add("line", {x1: left, x2: right, y1: place(value), y2: place(value), stroke: "var(--grid)"});
    drawing.text(left - 8, place(value) + 4, label(value), {"text-anchor": "end"});
  }
}
function x_axis(drawing, place, values, y, label) {
  for (const value of values) {
    drawing.add("line", {x1: place(value), x2: place(value), y1: y, y2: y + 5, stroke: "var(--faint)"});
    drawing.text(place(value), y + 19, label(value), {"text-anchor": "middle"});
  }
}

// Step time against bucket size
function draw_steps() {
  const sized = [], flat = [];
  for (const plan of report.plans)
    for (const name of plan.names) (name.bucket_mb ? sized : flat).push({...name, plan});
  sized.sort((a, b) => a.bucket_mb - b.bucket_mb);
  const medians = report.plans.map(plan => plan.step.median);
  // One slow step must not squeeze all others: bands beyond that are cut.
  const highest = Math.min(Math.max(...report.plans.map(plan => plan.step.max)), 1.5 * Math.max(...medians));
  let lowest = Math.min(...report.plans.map(plan => plan.step.min));
  const predicted = Math.min(...report.plans.map(plan => plan.predicted));
  if (ranks > 1 && predicted > 0.5 * lowest) lowest = Math.min(lowest, predicted);
  const pad = 0.06 * (highest - lowest) || 0.05 * highest;
  const bottom_value = lowest < 0.4 * highest ? 0 : lowest - pad, top_value = highest + pad;

  const drawing = new Drawing(by_id("step-chart"), 320, "Step time against bucket size");
  const left = 62, right = drawing.width - 16, top = 10, bottom = drawing.height - 46;
  const sizes = sized.map(point => Math.log(point.bucket_mb));
  const low = Math.min(...sizes, ...(sizes.length ? [] : [0])), high = Math.max(...sizes, ...(sizes.length ? [] : [0]));
  // To the right of the sizes, a column for each policy that has none.
  const inner = 24, slot = flat.length ? Math.min(96, 0.5 * (right - left) / flat.length) : 0;
  const border = sized.length ? right - slot * flat.length : left;
  const x = mb => high > low ? left + inner + (Math.log(mb) - low) / (high - low) * (border - left - 2 * inner)
                             : (left + border) / 2;
  const column = index => right - slot * (flat.length - index - 0.5);
  const y = seconds => bottom - (seconds - bottom_value) / (top_value - bottom_value) * (bottom - top);
  const [factor, unit] = time_unit(top_value);
  const values = ticks(bottom_value * factor, top_value * factor, 6);
  const decimals = values.length > 1 ? Math.max(0, -Math.floor(Math.log10(values[1] - values[0]) + 1e-9)) : 1;
  y_axis(drawing, value => y(value / factor), values, left, right, value => `${value.toFixed(decimals)} ${unit}`);
  drawing.add("line", {x1: left, x2: right, y1: bottom, y2: bottom, stroke: "var(--line)"});
  if (sized.length) {
    x_axis(drawing, x, spaced([...new Set(sized.map(point => point.bucket_mb))], x, 34), bottom, value => `${value}`);
    drawing.text((left + border) / 2, bottom + 38, "bucket size, MiB (log scale)", {"text-anchor": "middle"});
  }
  const clip = drawing.add("clipPath", {id: "inside"});
  clip.append(drawing.make("rect", {x: left, y: top, width: right - left, height: bottom - top}));

  const items = [];
  if (sized.length) {
    const edge = (points, end) => points.map(point => `${x(point.bucket_mb)},${y(point.plan.step[end])}`);
    drawing.add("polygon", {points: [...edge(sized, "max"), ...edge(sized, "min").reverse()].join(" "),
                            fill: "var(--ddp)", opacity: 0.16, "clip-path": "url(#inside)"});
  }
  if (sized.length && flat.length)
    drawing.add("line", {x1: border, x2: border, y1: top, y2: bottom, stroke: "var(--line)"});
  flat.forEach((point, index) => {
    const color = `var(--${point.policy})`, {step} = point.plan, middle = column(index);
    const across = point.plan.schedule === "across steps";
    const title = `${names(point.plan)}: ${span_text(step)}`;
    drawing.add("line", {x1: left, x2: right, y1: y(step.median), y2: y(step.median), stroke: color,
                         "stroke-dasharray": across ? "2 5" : "7 5", opacity: 0.75}, title);
    drawing.add("rect", {x: middle - 9, width: 18, y: y(step.max), height: Math.max(y(step.min) - y(step.max), 1),
                         fill: color, opacity: 0.2, "clip-path": "url(#inside)"}, title);
    drawing.add("circle", {cx: middle, cy: y(step.median), r: 4.5, fill: across ? "var(--card)" : color,
                           stroke: across ? color : "var(--card)", "stroke-width": across ? 2 : 1.5}, title);
    // On two lines: there is no room for a plan and its schedule side by side.
    if (slot >= 70) {
      drawing.text(middle, bottom + 19, point.text.replace(" across steps", ""), {"text-anchor": "middle"});
      if (across) drawing.text(middle, bottom + 34, "across", {"text-anchor": "middle"});
    }
    items.push([point.text, color, true]);
  });
  if (ranks > 1 && predicted >= bottom_value && predicted <= top_value) {
    drawing.add("line", {x1: left, x2: right, y1: y(predicted), y2: y(predicted), stroke: "var(--ideal)",
                         "stroke-dasharray": "2 4"}, `best by the cost model: ${time(predicted)}`);
    items.push(["best by the cost model", "var(--ideal)", true]);
  }
  if (sized.length) {
    drawing.add("polyline", {points: sized.map(point => `${x(point.bucket_mb)},${y(point.plan.step.median)}`).join(" "),
                             fill: "none", stroke: "var(--ddp)", "stroke-width": 2});
    for (const point of sized)
      drawing.add("circle", {cx: x(point.bucket_mb), cy: y(point.plan.step.median), r: 4.5, fill: "var(--ddp)",
                             stroke: "var(--card)", "stroke-width": 1.5},
                  `${names(point.plan)}: ${span_text(point.plan.step)}`);
    items.unshift(["ddp", "var(--ddp)"]);
  }
  legend("step-legend", items);
}

function fill_plans() {
  const cell = (...words) => element("td", {}, ...words);
  const spread = value => cell(time(value.median), " ", element("small", {}, `${time(value.min)} to ${time(value.max)}`));
  const predicted = plan => takes_processor
    ? cell(time(plan.predicted), element("br"), element("small", {}, `cpu ${processor_text(plan)}`))
    : cell(time(plan.predicted));
  const heads = ["plan", "buckets", "step", "predicted", "backward", "all-reduce", "exposed", "hidden"];
  const rows = report.plans.map((plan, index) => element("tr", index === report.best ? {class: "best"} : {},
    cell(names(plan)), cell(plan.buckets.length), spread(plan.step), predicted(plan), cell(time(plan.backward.median)),
    cell(time(plan.communication.median)), spread(plan.exposed),
    cell(plan.overlap ? percent(plan.overlap.median) : "–")));
  by_id("plans").replaceChildren(
    element("thead", {}, element("tr", {}, ...heads.map(word => element("th", {}, word)))),
    element("tbody", {}, ...rows));
}

// One step
function draw_line() {
  const plan = report.plans[Number(by_id("plan").value)], line = plan.timeline;
  const lanes = line.buckets.length;
  const lane = lanes <= 12 ? 24 : lanes <= 30 ? 16 : 8;
  const labelled = lane >= 16;
  const drawing = new Drawing(by_id("line-chart"), 66 + lanes * lane + 34, "Time line of one step");
  const left = labelled ? (drawing.width < 480 ? 76 : 104) : 62, right = drawing.width - 12;
  const bottom = drawing.height - 30, compute = 24;
  const last_done = lanes ? Math.max(...line.buckets.map(bucket => bucket.done)) : 0;
  const across = plan.schedule === "across steps", end = across ? Math.max(line.step, last_done) : line.step;
  const x = seconds => left + seconds / end * (right - left);
  const [factor, unit] = time_unit(end);
  const tops = spaced(ticks(0, end * factor, drawing.width < 480 ? 4 : 9), value => x(value / factor), 48);
  for (const value of tops)
    drawing.add("line", {x1: x(value / factor), x2: x(value / factor), y1: 18, y2: bottom, stroke: "var(--grid)"});
  x_axis(drawing, value => x(value / factor), tops, bottom, value => `${Number(value.toPrecision(6))} ${unit}`);

  if (across && end > line.step) {
    drawing.add("line", {x1: x(line.step), x2: x(line.step), y1: 18, y2: bottom, stroke: "var(--ink)",
                         "stroke-dasharray": "4 3"}, "the next step begins");
    drawing.text(x(line.step), 12, "next step", {"text-anchor": "middle"});
  }
  if (ranks > 1 && !across && last_done > line.backward_end) {
    const from = x(line.backward_end), to = x(last_done), waited = last_done - line.backward_end;
    const exposed = time(Math.max(waited - line.early_updates, 0));
    drawing.add("rect", {x: from, y: 18, width: Math.max(to - from, 1), height: bottom - 18, fill: "var(--exposed)",
                         opacity: 0.13},
                `exposed: ${exposed}, of ${time(waited)} after backward; updates took ${time(line.early_updates)} of them`);
    const at_end = from > (left + right) / 2;
    drawing.text(at_end ? Math.min(to, right) : from, 12, `exposed ${exposed}`,
                 {"text-anchor": at_end ? "end" : "start", style: "fill: var(--exposed)"});
  }
  const block = (span, y, height, color, title) => {
    if (!(span[1] > span[0])) return;
    drawing.add("rect", {x: x(span[0]), y, width: Math.max(x(span[1]) - x(span[0]), 0.6), height, fill: color}, title);
  };
  drawing.text(left - 8, compute + 17, "compute", {"text-anchor": "end"});
  for (const micro of line.micro_batches) {
    block(micro.data, compute, 26, "var(--data)", `data: ${time(micro.data[1] - micro.data[0])}`);
    for (const [kind, spans] of [["forward", micro.layer_forward], ["backward", micro.layer_backward]]) {
      block(micro[kind], compute, 26, `color-mix(in srgb, var(--${kind}) 45%, var(--card))`,
            `${kind}: ${time(micro[kind][1] - micro[kind][0])}`);
      spans.forEach((span, layer) => {
        const {name, kind: type} = report.layers[layer];
        block([span[0], span[1]], compute, 26, `var(--${kind})`,
              `${kind} of ${name || "layer " + layer} (${type}): ${time(span[1] - span[0])}`);
      });
      // Borders between layers, where there is room to see them.
      spans.forEach(span => {
        if (x(span[1]) - x(span[0]) > 5)
          drawing.add("line", {x1: x(span[0]), x2: x(span[0]), y1: compute, y2: compute + 26, stroke: "var(--card)"});
      });
    }
  }
  // Between the waits for other buckets; in one piece, because only their sum was recorded.
  block([line.optimizer[0] - line.early_updates, line.optimizer[0]], compute, 26,
        "color-mix(in srgb, var(--optimizer) 45%, var(--card))",
        `optimizer, for buckets that were done before the last one: ${time(line.early_updates)} in all`);
  block(line.optimizer, compute, 26, "var(--optimizer)", `optimizer: ${time(line.optimizer[1] - line.optimizer[0])}`);
  line.buckets.forEach((bucket, index) => {
    const y = 60 + index * lane, height = lane - (lane > 10 ? 6 : 2), facts = plan.buckets[index];
    const title = `bucket ${index}, ${bytes(facts.bytes)}: ready ${time(bucket.ready)}, start ${time(bucket.start)}, ` +
                  `done ${time(bucket.done)}\n${facts.first} to ${facts.last}`;
    if (labelled) drawing.text(left - 8, y + height - (lane > 20 ? 5 : 1),
                               drawing.width < 480 ? bytes(facts.bytes) : `${index}: ${bytes(facts.bytes)}`,
                               {"text-anchor": "end"});
    block([bucket.ready, bucket.start], y, height, "var(--waiting)", title);
    block([bucket.start, bucket.done], y, height, "var(--transfer)", title);
    drawing.add("line", {x1: x(bucket.ready), x2: x(bucket.ready), y1: y - 1, y2: y + height + 1, stroke: "var(--ink)",
                         "stroke-width": 1.5}, title);
  });
  if (!labelled) drawing.text(left - 8, 60 + lanes * lane / 2, `${lanes}`, {"text-anchor": "end"});
  if (!labelled) drawing.text(left - 8, 74 + lanes * lane / 2, "buckets", {"text-anchor": "end"});
}

// All-reduce
function fit_seconds(count) {
  const {pieces} = report.all_reduce.fit;
  let longest = 0;
  pieces.forEach((piece, index) => {
    if (piece.from_bytes > count) return;
    const end = index + 1 < pieces.length ? Math.min(count, pieces[index + 1].from_bytes) : count;
    longest = Math.max(longest, piece.alpha + piece.seconds_per_byte * end);
  });
  return longest;
}
function draw_bandwidth() {
  const rows = report.all_reduce.sizes;
  const drawing = new Drawing(by_id("bandwidth-chart"), 300, "All-reduce bandwidth against size");
  const left = 74, right = drawing.width - 22, top = 10, bottom = drawing.height - 46;
  const share = 2 * (ranks - 1) / ranks, bandwidth = (count, seconds) => count * share / seconds;
  const low = Math.log(rows[0].bytes), high = Math.log(rows[rows.length - 1].bytes);
  const x = count => high > low ? left + 12 + (Math.log(count) - low) / (high - low) * (right - left - 24)
                                : (left + right) / 2;
  const highest = 1.08 * Math.max(...rows.map(row => bandwidth(row.bytes, row.time.median)),
                                  ...rows.map(row => bandwidth(row.bytes, fit_seconds(row.bytes))));
  const y = value => Math.max(bottom - value / highest * (bottom - top), top);
  const factor = highest >= 1e9 ? 1e9 : 1e6, unit = factor === 1e9 ? "GB/s" : "MB/s";
  y_axis(drawing, value => y(value * factor), ticks(0, highest / factor, 6), left, right,
         value => `${Number(value.toPrecision(4))} ${unit}`);
  drawing.add("line", {x1: left, x2: right, y1: bottom, y2: bottom, stroke: "var(--line)"});
  const powers = [];
  for (let count = 1; count <= rows[rows.length - 1].bytes; count *= 4) if (count >= rows[0].bytes) powers.push(count);
  x_axis(drawing, x, spaced(powers, x, 58), bottom, bytes);
  drawing.text((left + right) / 2, bottom + 38, "bytes per rank (log scale)", {"text-anchor": "middle"});
  const curve = [];
  for (let k = 0; k <= 200; ++k) {
    const count = Math.exp(low + (high - low) * k / 200);
    curve.push(`${x(count)},${y(bandwidth(count, fit_seconds(count)))}`);
  }
  drawing.add("polyline", {points: curve.join(" "), fill: "none", stroke: "var(--cost_model)", "stroke-width": 2,
                           "stroke-dasharray": "7 5"});
  for (const row of rows) {
    const title = `${bytes(row.bytes)}: ${span_text(row.time)}, ${rate(row.bus_bandwidth)}`;
    drawing.add("line", {x1: x(row.bytes), x2: x(row.bytes), y1: y(bandwidth(row.bytes, row.time.min)),
                         y2: y(bandwidth(row.bytes, row.time.max)), stroke: "var(--ddp)", opacity: 0.55,
                         "stroke-width": 2}, title);
    drawing.add("circle", {cx: x(row.bytes), cy: y(row.bus_bandwidth), r: 4.5, fill: "var(--ddp)",
                           stroke: "var(--card)", "stroke-width": 1.5}, title);
  }
  legend("bandwidth-legend", [["measured: median, from slowest to fastest", "var(--ddp)"],
                              ["fit", "var(--cost_model)", true]]);
}

// What a transfer takes from a computation beside it. Older files do not say.
const processor = report.all_reduce.fit.processor || {per_transfer: 0, seconds_per_byte: 0};
const takes_processor = processor.per_transfer > 0 || processor.seconds_per_byte > 0;
function processor_text(plan) {
  const transfers = plan.issue_order && plan.issue_order.length ? plan.issue_order.length : plan.buckets.length;
  const sent = plan.buckets.reduce((sum, bucket) => sum + bucket.bytes, 0);
  return time(transfers * processor.per_transfer + sent * processor.seconds_per_byte);
}

// Words around the pictures
function fill_words() {
  const facts = report.provenance;
  by_id("setting").textContent = `${report.model}, batch ${report.batch_size} per rank` +
    (report.accumulate > 1 ? ` × ${report.accumulate}` : "") + `, ${ranks} ${ranks === 1 ? "rank" : "ranks"}, ` +
    `${bytes(report.gradient_bytes)} of gradients, all-reduce by ${report.all_reduce.path}`;
  const notices = [];
  if (report.replay) notices.push(["Replay: nothing was computed. ", `Layers are timed waits, ${report.replay}.`]);
  if (ranks === 1) notices.push(["One rank: ", "nothing is communicated, and there is nothing to hide."]);
  if (report.plans.some(plan => plan.schedule === "across steps")) {
    notices.push(["Schedule across steps: ", "buckets stay on the network during the next step's forward, in which each " +
                  "layer waits for its own; exposed is that waiting. Each step follows one of the same plan."]);
    by_id("exposed-means").textContent = "the time that the next forward waits for buckets; what buckets and their " +
      "order are there to make small";
    by_id("hidden-means").textContent = "the rest of it, during backward, forward and the updates of buckets; " +
      "all-reduce = hidden + exposed";
    by_id("predicted-means").textContent = "the step by the cost model: one all-reduce after the other, with the fit " +
      "above and the times at which gradients become ready; each layer's forward waits for its buckets and updates them";
  }
  for (const note of report.notes) notices.push(["", note]);
  by_id("notices").replaceChildren(...notices.map(([strong, rest]) =>
    element("div", {class: "notice"}, element("p", {}, element("b", {}, strong), rest))));

  const best = report.plans[report.best];
  const figure = (value, words) => element("div", {}, element("b", {}, value), element("span", {}, words));
  const figures = [figure(best.names[0].text, ranks > 1 ? "is the fastest plan" : "was the fastest, by chance"),
                   figure(time(best.step.median), "its step")];
  if (ranks > 1) figures.push(figure(time(best.exposed.median), "of it exposed communication"),
                              figure(percent(best.overlap.median), "of its communication hidden"),
                              figure(time(Math.min(...report.plans.map(plan => plan.predicted))), "the best step by the cost model"));
  by_id("figures").replaceChildren(...figures);
  by_id("fit").textContent = report.all_reduce.fit.pieces.map(piece =>
    `From ${bytes(piece.from_bytes)}: ${time(Math.abs(piece.alpha)).replace(/^/, piece.alpha < 0 ? "−" : "")} + bytes` +
    (piece.seconds_per_byte > 0 ? ` / ${rate(1 / piece.seconds_per_byte)}` : " × 0")).join(". ") + "." +
    (takes_processor ? ` Each takes ${time(processor.per_transfer)} and ${time(2 ** 20 * processor.seconds_per_byte)} a MiB of ` +
                       "the processor from a computation beside it." : "");
  if (takes_processor)
    by_id("predicted-means").append("; beside it, as cpu, the processor time that the plan's transfers take from computation " +
                                    "if all of them lie beside it, of which the prediction counts what does");

  const hosts = [...new Set(facts.ranks.map(rank => rank.host))];
  const rows = [["program", `tutti ${facts.version}, commit ${facts.commit}`], ["time", facts.time],
                ["device", facts.device], ["hosts", hosts.join(", ")],
                ["MPI", facts.libraries.mpi], ["steps", `${report.steps} of each plan in turn, after ${report.warmup} to warm up`]];
  if (facts.overrides.length) rows.push(["settings", facts.overrides.join(" ")]);
  by_id("provenance").replaceChildren(...rows.flatMap(([key, value]) =>
    [element("dt", {}, key), element("dd", {}, value)]));
}

// Theme: the system's until the button is pressed.
const themes = ["system", "light", "dark"];
let theme = "system";
function show_theme() {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
  by_id("theme").textContent = `Theme: ${theme}`;
}
by_id("theme").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  try { localStorage.setItem("tutti-theme", theme); } catch { /* a page from a file may have no storage */ }
  show_theme();
});
try { theme = localStorage.getItem("tutti-theme") || "system"; } catch { /* the same */ }
const wanted = location.hash.match(/theme=(light|dark)/);
if (wanted) theme = wanted[1];
show_theme();

report.plans.forEach((plan, index) =>
  by_id("plan").append(element("option", {value: index, ...(index === report.best ? {selected: ""} : {})}, names(plan))));
by_id("plan").addEventListener("change", draw_line);
fill_words();
fill_plans();
legend("line-legend", [["data", "var(--data)"], ["forward", "var(--forward)"], ["backward", "var(--backward)"],
                       ["optimizer", "var(--optimizer)"], ["bucket is ready and waits", "var(--waiting)"],
                       ["bucket is sent", "var(--transfer)"], ["exposed", "color-mix(in srgb, var(--exposed) 22%, var(--card))"]]);
function draw() {
  draw_steps();
  draw_line();
  if (report.all_reduce.sizes.length) draw_bandwidth();
  else by_id("all-reduce").remove();
}
draw();
let drawn = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === drawn) return;
  drawn = document.documentElement.clientWidth;
  draw_steps();
  draw_line();
  if (report.all_reduce.sizes.length) draw_bandwidth();
});
