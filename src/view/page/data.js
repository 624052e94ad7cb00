// What the page knows of the runs, and series in the form in which they are drawn.
'use strict';

const runs = new Map();  // by number

// Points from `at` on replace those that are there.
function mergeSeries(old, news) {
  const series = old || {steps: [], mean: [], low: [], high: []};
  let step = 0;
  const steps = news.steps.map((add) => (step += add));
  const put = (name, values) => series[name].splice(news.at, Infinity, ...values);
  put('steps', steps);
  put('mean', news.mean);
  put('low', news.low || news.mean);
  put('high', news.high || news.mean);
  return series;
}

function mergeRun(news) {
  let run = runs.get(news.id);
  if (!run || news.all) run = {series: {}, events: [], incidents: [], shown: run ? run.shown : true};
  const {series, events, incidents, ...rest} = news;
  Object.assign(run, rest);
  for (const name in series) run.series[name] = mergeSeries(run.series[name], series[name]);
  run.events.push(...(events || []));
  run.events.splice(0, run.events.length - 200);
  run.incidents.push(...(incidents || []));
  run.cache = {};  // of what is worked out from the series
  runs.set(news.id, run);
}

// "0:17:3,1:17:9": what need not be sent again.
function known() {
  return [...runs.values()].map((run) => `${run.id}:${run.generation}:${run.version}`).join(',');
}

// Values of a counter at rising steps, by straight lines between its points.
function counterAt(counter, steps) {
  if (!counter || counter.steps.length === 0) return null;
  const xs = counter.steps, ys = counter.mean;
  let i = 0;
  return steps.map((step) => {
    while (i + 1 < xs.length && xs[i + 1] < step) ++i;
    const x0 = step <= xs[0] ? 0 : xs[i], y0 = step <= xs[0] ? 0 : ys[i];
    const x1 = step <= xs[0] ? xs[0] : xs[Math.min(i + 1, xs.length - 1)];
    const y1 = step <= xs[0] ? ys[0] : ys[Math.min(i + 1, xs.length - 1)];
    return x1 > x0 ? y0 + (y1 - y0) * (step - x0) / (x1 - x0) : y1;
  });
}

function positions(run, steps, axis) {
  if (axis === 'step') return steps;
  return counterAt(run.series[axis === 'tokens' ? 'consumed_tokens' : 'elapsed'], steps);
}

// A mean that forgets: what lies `width` of the axis back counts a third.
function smoothed(xs, ys, width) {
  if (!(width > 0)) return ys;
  let sum = 0, weight = 0, before = xs[0];
  return ys.map((y, i) => {
    const kept = Math.exp(-Math.max(0, xs[i] - before) / width);
    before = xs[i];
    if (y !== null) {
      sum = sum * kept + y;
      weight = weight * kept + 1;
    }
    return weight > 0 ? sum / weight : null;
  });
}

// The series of that name, or one that follows from others.
function seriesOf(run, name) {
  if (run.series[name]) return run.series[name];
  const speed = run.series.tokens_per_second;
  if (!speed || !run.flops_per_token) return null;
  const perDevice = run.flops_per_token / run.ranks;
  const factor = name === 'tflops' ? perDevice / 1e12
    : name === 'mfu' && run.peak_flops ? 100 * perDevice / run.peak_flops : 0;
  if (!factor) return null;
  const times = (values) => values.map((value) => value === null ? null : value * factor);
  return {steps: speed.steps, mean: times(speed.mean), low: times(speed.low), high: times(speed.high)};
}

function last(run, name) {
  const series = seriesOf(run, name);
  if (!series) return null;
  for (let i = series.mean.length - 1; i >= 0; --i) if (series.mean[i] !== null) return series.mean[i];
  return null;
}

function stepOf(run) {
  const loss = run.series.loss;
  return Math.max(run.status.step || 0, loss && loss.steps.length ? loss.steps[loss.steps.length - 1] : 0);
}

function stateOf(run) {
  if (run.status.gone) return 'killed';
  return run.status.state || 'unknown';
}

// Of late: over the last points of the elapsed time.
function secondsPerStep(run) {
  const elapsed = run.series.elapsed;
  if (!elapsed || elapsed.steps.length < 2) return null;
  const end = elapsed.steps.length - 1, begin = Math.max(0, end - 30);
  return (elapsed.mean[end] - elapsed.mean[begin]) / (elapsed.steps[end] - elapsed.steps[begin]);
}

// --- numbers as people read them ---

function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size >= 1e12) return (value / 1e12).toPrecision(3) + 'T';
  if (size >= 1e9) return (value / 1e9).toPrecision(3) + 'G';
  if (size >= 1e6) return (value / 1e6).toPrecision(3) + 'M';
  if (size >= 1e4) return (value / 1e3).toPrecision(3) + 'k';
  if (size !== 0 && size < 1e-3) return Number(value.toPrecision(3)).toExponential().replace('e-', 'e−');
  return String(Number(value.toPrecision(4)));
}

function duration(seconds) {
  if (seconds === null || !isFinite(seconds)) return '–';
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, '0');
  if (s < 60) return `${seconds < 10 && seconds > 0 ? Number(seconds.toPrecision(2)) : s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) { count /= 1024; ++unit; }
  return `${unit ? count.toFixed(count < 10 ? 2 : 1) : count} ${units[unit]}`;
}
