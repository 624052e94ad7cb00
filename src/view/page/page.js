// The page: chips of runs, tiles, charts, tables, and the questions to the program.

const $ = (id) => document.getElementById(id);
const embedded = document.getElementById('data') ? JSON.parse($('data').textContent) : null;
const settings = {x: 'step', smooth: 0, log: false, run: null};
const charts = new Map();  // by series
let machine = '', serverTime = 0, heardAt = 0;

// An element with a class and children; texts stay texts.
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// The run that was clicked; else one that trains, or has trained: a folder that was converted has
// nothing to show.
const chosen = () => runs.get(settings.run)
  || [...runs.values()].find((run) => stateOf(run) === 'running')
  || [...runs.values()].find((run) => run.series.loss) || runs.values().next().value;
const shownRuns = () => [...runs.values()].filter((run) => run.shown);

// --- settings, kept in the address ---

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (['step', 'tokens', 'time'].includes(given.get('x'))) settings.x = given.get('x');
  settings.smooth = Math.min(100, Math.max(0, Number(given.get('smooth')) || 0));
  settings.log = given.get('log') === '1';
  if (given.has('run')) settings.run = Number(given.get('run'));
  document.querySelector(`input[name=x][value=${settings.x}]`).checked = true;
  $('smooth').value = settings.smooth;
  $('log').checked = settings.log;
}

function writeAddress() {
  const kept = new URLSearchParams();
  if (settings.x !== 'step') kept.set('x', settings.x);
  if (settings.smooth > 0) kept.set('smooth', settings.smooth);
  if (settings.log) kept.set('log', '1');
  if (settings.run !== null) kept.set('run', settings.run);
  history.replaceState(null, '', kept.size ? '#' + kept : location.pathname);
}

function onControl() {
  settings.x = document.querySelector('input[name=x]:checked').value;
  settings.smooth = Number($('smooth').value);
  settings.log = $('log').checked;
  writeAddress();
  for (const run of runs.values()) run.cache = {};
  drawCharts();
}

// --- charts ---

const known_charts = {
  loss: ['loss', 'of each step; dots: validation'],
  lr: ['learning rate', ''],
  grad_norm: ['gradient norm', 'before clipping'],
  tokens_per_second: ['tokens/s', 'of all ranks'],
  mfu: ['share of the peak (MFU)', '%'],
  tflops: ['TFLOP/s', 'of a rank; attention not halved'],
  save_seconds: ['time of a save', 'seconds, until it is on the disk'],
  save_waited_seconds: ['wait for a save', 'seconds that training stood still'],
  guard_seconds: ['time of a check', 'seconds, against silent corruption'],
};
// Of some steps only: drawn as points.
const now_and_then = ['save_seconds', 'save_waited_seconds', 'guard_seconds'];
const hidden_series = ['consumed_tokens', 'elapsed', 'guard_hash_bytes', 'guard_hash_seconds', 'skipped_steps', 'valid_loss',
  'went_back_to'];

function chartNames() {
  const found = new Set();
  for (const run of runs.values()) {
    for (const name in run.series) if (!hidden_series.includes(name)) found.add(name);
    for (const name of ['mfu', 'tflops']) if (seriesOf(run, name)) found.add(name);
  }
  if (found.has('mfu')) found.delete('tflops');
  const order = Object.keys(known_charts);
  return [...found].sort((a, b) => (order.indexOf(a) + 1 || 99) - (order.indexOf(b) + 1 || 99) || (a < b ? -1 : 1));
}

// The first and the last position of any run: smoothing is a share of the last.
function axisRange() {
  let first = Infinity, last = 0;
  for (const run of shownRuns()) {
    const loss = run.series.loss;
    if (!loss || !loss.steps.length) continue;
    const at = positions(run, [loss.steps[0], loss.steps[loss.steps.length - 1]], settings.x);
    if (!at) continue;
    first = Math.min(first, at[0]);
    last = Math.max(last, at[1]);
  }
  return {first, last};
}

function linesOf(name) {
  const width = axisRange().last * 0.15 * (settings.smooth / 100) ** 2;
  const lines = [];
  const many = shownRuns().length > 1;
  for (const run of shownRuns()) {
    const key = `${name}/${width}/${many}`;
    if (!run.cache[key]) run.cache[key] = runLines(run, name, width, many);
    lines.push(...run.cache[key]);
  }
  return lines;
}

function runLines(run, name, width, many) {
  const lines = [];
  const add = (series, word, more) => {
    const xs = series && positions(run, series.steps, settings.x);
    if (!xs) return;
    lines.push({id: run.id, name: many ? `${run.name}${word === 'validation' ? ' ' + word : ''}` : word, xs, ...more});
  };
  const series = seriesOf(run, name);
  if (series) {
    const xs = positions(run, series.steps, settings.x) || [];
    const dots = now_and_then.includes(name);
    const plain = dots || ['lr', 'loss_scale'].includes(name);
    const smooth = plain ? 0 : width;
    // A band shows what lies behind a smooth line, of one run.
    const band = !many && !plain ? {low: series.low, high: series.high} : {};
    add(series, (known_charts[name] || [name])[0], {ys: smoothed(xs, series.mean, smooth), dots, ...band});
  }
  if (name === 'loss' && run.series.valid_loss)
    add(run.series.valid_loss, 'validation', {ys: run.series.valid_loss.mean, dots: true});
  return lines;
}

// Restarts and steps that went wrong, of the run that was chosen.
function marks() {
  const run = chosen();
  if (!run || !run.shown) return [];
  const all = [];
  const add = (step, color) => {
    const at = positions(run, [step], settings.x);
    if (step > 0 && at) all.push({x: at[0], color});
  };
  for (const [kind, , step] of run.events) {
    if (kind === 'start' || kind === 'restart') add(step, cssColor('--calm'));
    if (kind === 'skip') add(step, cssColor('--bad'));
  }
  for (const [step] of run.incidents) add(step, cssColor('--bad'));
  return all;
}

function drawCharts() {
  for (const name of chartNames()) {
    if (!charts.has(name)) {
      const [title, unit] = known_charts[name] || [name.replaceAll('_', ' '), ''];
      const chart = new Chart($('charts'), title, unit, () => linesOf(name),
        () => ({axis: settings.x, log: settings.log, marks, range: axisRange()}));
      if (name === 'loss') chart.figure.classList.add('first');
      charts.set(name, chart);
    }
    const chart = charts.get(name);
    $('charts').append(chart.figure);
    chart.draw();
  }
}

// --- the run that was chosen ---

function tile(what, value, more, className) {
  const made = element('div', 'tile', element('div', 'what', what), element('div', 'value ' + (className || ''), value));
  if (more) made.append(element('div', 'more', more));
  return made;
}

function drawTiles() {
  const run = chosen();
  if (!run) return $('tiles').replaceChildren();
  const {status} = run, step = stepOf(run), state = stateOf(run), pace = secondsPerStep(run);
  const since = status.updated ? Math.max(0, serverTime - Date.parse(status.updated) / 1000) : null;
  const tiles = [tile('state', state,
    state === 'killed' ? 'its process ended without a message' : status.reason
      || (since !== null ? `${state === 'running' ? 'reported' : ''} ${duration(since)} ago` : ''), state)];
  const progress = tile('step', short(step), status.steps ? `of ${status.steps}` : '');
  if (status.steps) {
    const bar = element('progress', '');
    bar.max = status.steps;
    bar.value = step;
    progress.append(bar);
  }
  tiles.push(progress);
  const valid = last(run, 'valid_loss');
  tiles.push(tile('loss', short(last(run, 'loss')), valid !== null ? `validation ${short(valid)}` : ''));
  tiles.push(tile('tokens/s', short(last(run, 'tokens_per_second')), pace ? `${duration(pace)} a step` : ''));
  const mfu = last(run, 'mfu'), tflops = last(run, 'tflops');
  if (mfu !== null) tiles.push(tile('share of the peak', `${mfu.toFixed(1)}%`, `${short(tflops)} TFLOP/s of ${machine}`));
  else if (tflops !== null) tiles.push(tile('TFLOP/s of a rank', short(tflops), run.ranks > 1 ? `${run.ranks} ranks` : ''));
  if (state === 'running' && pace && status.steps > step)
    tiles.push(tile('left', duration(pace * (status.steps - step)), ''));
  const elapsed = last(run, 'elapsed');
  tiles.push(tile('trained for', duration(elapsed), `${short(last(run, 'consumed_tokens'))} tokens`));
  const saved = (run.checkpoints || []).at(-1);
  tiles.push(tile('last checkpoint', saved ? `step ${saved.step}` : 'none', saved ? bytes(saved.bytes) : ''));
  $('tiles').replaceChildren(...tiles);
}

function drawNotes() {
  const run = chosen();
  $('notes').replaceChildren(...(run ? run.notes : []).map((note) => element('li', '', note)));
}

function drawRuns() {
  $('runs').hidden = runs.size < 2;
  $('runs').replaceChildren(...[...runs.values()].map((run) => {
    const box = element('input', '');
    box.type = 'checkbox';
    box.checked = run.shown;
    box.style.accentColor = colorOf(run.id);
    box.setAttribute('aria-label', `show ${run.name}`);
    box.addEventListener('change', () => { run.shown = box.checked; drawAll(); });
    const name = element('button', '', run.name);
    name.title = run.folder;
    name.style.color = colorOf(run.id);
    name.addEventListener('click', () => { settings.run = run.id; writeAddress(); drawAll(); });
    return element('div', run === chosen() ? 'run chosen' : 'run', box, name,
      element('span', 'state ' + stateOf(run), stateOf(run)));
  }));
}

// --- tables ---

function table(heads, rows) {
  const cells = (tag, values) => {
    const row = element('tr', '');
    for (const value of values) {
      const isNumber = typeof value === 'object' && value && 'number' in value;
      const isLong = typeof value === 'object' && value && 'long' in value;
      row.append(element(tag, isNumber ? 'number' : isLong ? 'long' : '', isNumber ? value.number : isLong ? value.long : value));
    }
    return row;
  };
  const made = element('table', '', cells('th', heads));
  for (const row of rows) made.append(cells('td', row));
  return element('div', 'scroll', made);
}

function nameCell(run) {
  const dot = element('span', 'dot');
  dot.style.background = colorOf(run.id);
  const cell = element('span', '', dot, run.name);
  return cell;
}

function drawComparison() {
  const compared = shownRuns();
  $('compare').hidden = compared.length < 2;
  if (compared.length < 2) return;
  const number = (value) => ({number: short(value)});
  const figures = table(
    ['run', 'state', {number: 'step'}, {number: 'loss'}, {number: 'validation'}, {number: 'tokens'}, {number: 'tokens/s'}, {number: 'trained for'}],
    compared.map((run) => [nameCell(run), element('span', stateOf(run), stateOf(run)), {number: String(stepOf(run))},
      number(last(run, 'loss')), number(last(run, 'valid_loss')), number(last(run, 'consumed_tokens')),
      number(last(run, 'tokens_per_second')), {number: duration(last(run, 'elapsed'))}]));
  const keys = new Set(compared.flatMap((run) => Object.keys(run.config || {})));
  keys.delete('run.dir');
  const value = (run, key) => (run.config || {})[key] ?? 'default';
  const differing = [...keys].filter((key) => new Set(compared.map((run) => value(run, key))).size > 1).sort();
  const parts = [element('div', 'card', element('h2', '', 'The runs'), figures)];
  if (differing.length)
    parts.push(element('div', 'card', element('h2', '', 'Settings that differ'),
      table(['setting', ...compared.map(nameCell)], differing.map((key) => [key, ...compared.map((run) => value(run, key))]))));
  $('compare').replaceChildren(...parts);
}

function picture(svg, words) {
  const image = element('img', 'picture');
  image.src = 'data:image/svg+xml,' + encodeURIComponent(svg);
  image.alt = words;
  return element('div', 'scroll', image);
}

function layoutCard(run) {
  const card = element('div', 'card wide', element('h2', '', 'Layout'));
  const layout = run.drawn;
  if (!layout) card.append(element('p', 'faint', 'it is being planned'));
  else {
    if (layout.mesh) card.append(element('p', 'faint', layout.mesh));
    if (layout.note) card.append(element('p', 'faint', layout.note));
    if (layout.memory) card.append(picture(layout.memory, 'memory per rank by region'));
    if (layout.schedule) card.append(picture(layout.schedule, 'the pipeline schedule'));
  }
  return card;
}

function checkpointsCard(run) {
  const rows = [...(run.checkpoints || [])].reverse().map((saved) =>
    [{number: String(saved.step)}, {number: bytes(saved.bytes)}, saved.time ? new Date(saved.time * 1000).toLocaleString('en-GB') : '–']);
  const list = table([{number: 'step'}, {number: 'size'}, 'complete since'], rows);
  list.classList.add('tall');
  return element('div', 'card', element('h2', '', `Checkpoints (${rows.length})`), list);
}

function eventsCard(run) {
  const rows = [...run.events].reverse().map(([kind, time, step, text]) =>
    [time, element('span', {error: 'failed', restart: 'failed', warning: 'interrupted', skip: 'interrupted', start: 'done'}[kind] || '', kind), {long: text}]);
  for (const [step, what] of run.incidents) rows.unshift(['', element('span', 'failed', 'step ' + step), {long: what}]);
  const list = table(['time', '', 'what the log says'], rows);
  list.classList.add('tall');
  const starts = run.starts > 1 ? `, ${run.starts} starts` : '';
  return element('div', 'card', element('h2', '', `Events (${rows.length}${starts})`), list);
}

function filesCard(run) {
  const list = table(['file', {number: 'size'}], (run.files || []).map(([name, size]) => [name, {number: name.endsWith('/') ? '' : bytes(size)}]));
  list.classList.add('tall');
  return element('div', 'card', element('h2', '', 'In the folder'), element('p', 'faint', run.folder), list);
}

function settingsCard(run) {
  const list = table(['setting', 'value'], Object.entries(run.config || {}).map(([key, value]) => [key, {long: value}]));
  list.classList.add('tall');
  return element('div', 'card', element('h2', '', 'Settings that are not the default'), list);
}

function samplesCard(run) {
  const parts = run.samples.flatMap(([name, text]) => [element('p', 'faint', name), element('pre', '', text)]);
  return element('div', 'card wide', element('h2', '', 'What it wrote'), ...parts);
}

// Only when something in it is new: a table that is drawn again loses its place.
function drawDetails() {
  const run = chosen();
  if (!run) return $('details').replaceChildren();
  const state = JSON.stringify([run.id, run.generation, run.events.length, run.incidents.length, run.checkpoints, run.files, run.samples, run.config, !!run.drawn, run.layout]);
  if (state === drawDetails.state) return;
  drawDetails.state = state;
  const cards = [layoutCard(run), checkpointsCard(run), eventsCard(run), settingsCard(run), filesCard(run)];
  if (run.samples && run.samples.length) cards.push(samplesCard(run));
  $('details').replaceChildren(...cards);
}

function drawAll() {
  drawRuns();
  drawTiles();
  drawNotes();
  drawCharts();
  drawComparison();
  drawDetails();
}

// --- questions to the program ---

function say(text) {
  $('banner').hidden = !text;
  $('banner').textContent = text;
}

function take(update) {
  machine = update.machine;
  serverTime = update.time;
  heardAt = Date.now();
  for (const run of update.runs) mergeRun(run);
  say(update.runs.length ? update.note : 'There is no run yet: this page shows it when it begins.');
  const run = chosen();
  document.title = run ? `${run.name}: ${short(last(run, 'loss'))} at step ${stepOf(run)}` : 'Trireme';
}

async function askLayout() {
  const run = chosen();
  if (!run || run.drawnFor === run.layout) return;
  run.drawnFor = run.layout;
  run.drawn = await (await fetch(`layout/${run.id}`)).json();
  drawDetails();
}

let asked = null;
async function ask() {
  clearTimeout(asked);
  let wait = 15000;
  try {
    const reply = await fetch('update?have=' + known());
    if (!reply.ok) throw new Error(await reply.text());
    take(await reply.json());
    drawAll();
    askLayout();
    const all = [...runs.values()];
    if (all.some((run) => stateOf(run) === 'running') || all.length === 0) wait = 3000;
    if (all.some((run) => !run.whole)) wait = 200;
    $('heard').textContent = `updated every ${wait < 1000 ? 1 : wait / 1000} s`;
  } catch (error) {
    say(`trireme view does not answer (${error.message.trim()}): what is below is what it said last.`);
    wait = 5000;
  }
  if (!document.hidden) asked = setTimeout(ask, wait);
}

readAddress();
$('controls').addEventListener('input', onControl);
$('controls').addEventListener('submit', (event) => event.preventDefault());
dark.addEventListener('change', drawAll);
if (embedded) {
  take(embedded.update);
  for (const run of runs.values()) run.drawn = embedded.layouts[run.id];
  $('heard').textContent = 'as of ' + new Date(serverTime * 1000).toLocaleString('en-GB');
  drawAll();
} else {
  document.addEventListener('visibilitychange', () => document.hidden ? clearTimeout(asked) : ask());
  ask();
}
