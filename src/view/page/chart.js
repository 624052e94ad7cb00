// A chart on a canvas: lines with bands, marks at some places, and the values under the pointer.

const dark = matchMedia('(prefers-color-scheme: dark)');
const lightColors = ['#2563b0', '#c2571a', '#2a8048', '#8a4fb0', '#b02a3a', '#1f8a99', '#a07d10', '#6b5b4d', '#d0589a', '#4f5f8f'];
const darkColors = ['#6aa9f0', '#f09a5e', '#6fca8c', '#c091e6', '#f2818a', '#5fcbd8', '#e0c05a', '#c0ab98', '#f29cc8', '#a3b2e0'];
const colorOf = (id) => (dark.matches ? darkColors : lightColors)[id % lightColors.length];
const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Round numbers between two, about this many.
function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / count));
  const ratio = span / count / power;
  const step = power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) all.push(i * step);
  return all;
}

// Seconds fall on minutes, hours and days.
function timeTicks(low, high, count) {
  const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];
  const step = steps.find((one) => (high - low) / one <= count);
  if (!step || high - low < 5) return ticks(low, high, count);
  const all = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) all.push(t);
  return all;
}

function timeText(seconds) {
  if (seconds >= 172800) return `${Number((seconds / 86400).toPrecision(3))} d`;
  if (seconds >= 7200) return `${Number((seconds / 3600).toPrecision(3))} h`;
  if (seconds >= 120) return `${Number((seconds / 60).toPrecision(3))} min`;
  return `${Number(seconds.toPrecision(3))} s`;
}

class Chart {
  // `lines()` gives [{id, name, xs, ys, low, high, dots, dashed}]; `view()` {axis, log, marks}.
  constructor(parent, title, unit, lines, view) {
    this.lines = lines;
    this.view = view;
    this.figure = document.createElement('figure');
    this.figure.className = 'chart';
    this.figure.innerHTML = '<div class="head"><h2></h2><span class="unit"></span></div><canvas role="img"></canvas><div class="values"></div>';
    this.figure.querySelector('h2').textContent = title;
    this.figure.querySelector('.unit').textContent = unit;
    this.canvas = this.figure.querySelector('canvas');
    this.canvas.setAttribute('aria-label', title);
    this.values = this.figure.querySelector('.values');
    this.at = null;
    const point = (event) => { this.at = event.offsetX; this.draw(); };
    this.canvas.addEventListener('pointermove', point);
    this.canvas.addEventListener('pointerdown', point);
    this.canvas.addEventListener('pointerleave', () => { this.at = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    parent.append(this.figure);
  }

  // Of all that is drawn, and along x at least the runs' range; spikes of the bands do not count.
  extent(lines, log, range) {
    let x0 = range.first, x1 = range.last, y0 = Infinity, y1 = -Infinity;
    for (const line of lines) {
      line.xs.forEach((x, i) => {
        const y = line.ys[i];
        if (y === null || (log && y <= 0)) return;
        x0 = Math.min(x0, x); x1 = Math.max(x1, x);
        y0 = Math.min(y0, y); y1 = Math.max(y1, y);
      });
    }
    if (x0 > x1 || y0 > y1) return null;
    if (x0 > 0 && x0 < 0.2 * x1) x0 = 0;
    if (x1 === x0) x1 = x0 + 1;
    if (log) return {x0, x1, y0: Math.log10(y0) - 0.02, y1: Math.log10(y1) + 0.02};
    const room = y1 > y0 ? 0.06 * (y1 - y0) : Math.max(Math.abs(y1) * 0.05, 1e-12);
    return {x0, x1, y0: y0 >= 0 && y0 < room * 4 ? 0 : y0 - room, y1: y1 + room};
  }

  draw() {
    const {axis, log, marks, range} = this.view();
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (width === 0) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext('2d');
    pen.scale(ratio, ratio);
    pen.font = '11px system-ui, sans-serif';
    const lines = this.lines(), extent = this.extent(lines, log, range);
    if (!extent) {
      pen.fillStyle = cssColor('--faint');
      pen.textAlign = 'center';
      pen.fillText('no values yet', width / 2, height / 2);
      this.values.textContent = '';
      return;
    }
    const box = {left: 50, right: width - 10, top: 10, bottom: height - 24};
    const x = (value) => box.left + (value - extent.x0) / (extent.x1 - extent.x0) * (box.right - box.left);
    const height01 = (value) => ((log ? Math.log10(value) : value) - extent.y0) / (extent.y1 - extent.y0);
    const y = (value) => box.bottom - Math.max(-0.1, Math.min(1.1, height01(value))) * (box.bottom - box.top);
    this.grid(pen, box, extent, axis, log, x);
    pen.save();
    pen.beginPath();
    pen.rect(box.left, box.top - 4, box.right - box.left + 4, box.bottom - box.top + 5);
    pen.clip();
    for (const mark of marks()) this.mark(pen, box, x(mark.x), mark.color);
    for (const line of lines) this.line(pen, line, x, y, log);
    const cursor = this.at === null ? null
      : extent.x0 + (Math.max(box.left, Math.min(box.right, this.at)) - box.left) / (box.right - box.left) * (extent.x1 - extent.x0);
    if (cursor !== null) this.mark(pen, box, x(cursor), cssColor('--ink'));
    this.say(pen, lines, cursor, axis, x, y);
    pen.restore();
  }

  grid(pen, box, extent, axis, log, x) {
    pen.strokeStyle = cssColor('--line');
    pen.fillStyle = cssColor('--faint');
    pen.lineWidth = 1;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    let values = ticks(extent.y0, extent.y1, (box.bottom - box.top) / 45);
    if (log) {
      const low = Math.floor(extent.y0), high = Math.ceil(extent.y1);
      values = [];
      for (let power = low; power <= high; ++power)
        for (const digit of high - low > 3 ? [1] : [1, 2, 5]) values.push(Math.log10(digit * 10 ** power));
      values = values.filter((value) => value >= extent.y0 && value <= extent.y1);
      if (values.length < 2) values = ticks(extent.y0, extent.y1, 4);
    }
    for (const value of values) {
      const at = Math.round(box.bottom - (value - extent.y0) / (extent.y1 - extent.y0) * (box.bottom - box.top)) + 0.5;
      pen.beginPath(); pen.moveTo(box.left, at); pen.lineTo(box.right, at); pen.stroke();
      pen.fillText(short(log ? 10 ** value : Math.abs(value) < 1e-15 ? 0 : value), box.left - 6, at);
    }
    pen.textAlign = 'center';
    pen.textBaseline = 'top';
    const count = Math.max(2, (box.right - box.left) / 90);
    for (const value of (axis === 'time' ? timeTicks : ticks)(extent.x0, extent.x1, count)) {
      const at = Math.round(x(value)) + 0.5;
      pen.beginPath(); pen.moveTo(at, box.bottom); pen.lineTo(at, box.bottom + 4); pen.stroke();
      const text = axis === 'time' ? timeText(value) : short(value);
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(at, box.right + 8 - half), box.bottom + 7);
    }
  }

  mark(pen, box, at, color) {
    pen.strokeStyle = color;
    pen.globalAlpha = 0.55;
    pen.setLineDash([3, 3]);
    pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(at, box.top - 4); pen.lineTo(at, box.bottom); pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  line(pen, line, x, y, log) {
    const there = (value) => value !== null && (!log || value > 0);
    pen.strokeStyle = pen.fillStyle = colorOf(line.id);
    if (line.low) {
      pen.globalAlpha = 0.16;
      pen.beginPath();
      const good = line.xs.map((_, i) => i).filter((i) => there(line.low[i]) && there(line.high[i]));
      good.forEach((i, k) => pen[k ? 'lineTo' : 'moveTo'](x(line.xs[i]), y(line.high[i])));
      good.reverse().forEach((i) => pen.lineTo(x(line.xs[i]), y(line.low[i])));
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.lineWidth = 1.6;
    pen.lineJoin = 'round';
    if (line.dots) {
      line.xs.forEach((at, i) => {
        if (!there(line.ys[i])) return;
        pen.beginPath(); pen.arc(x(at), y(line.ys[i]), line.xs.length > 60 ? 2 : 3.2, 0, 7); pen.fill();
      });
      pen.setLineDash([2, 3]);
      pen.globalAlpha = 0.6;
    }
    pen.beginPath();
    let drawing = false;
    line.xs.forEach((at, i) => {
      if (!there(line.ys[i])) { drawing = false; return; }
      pen[drawing ? 'lineTo' : 'moveTo'](x(at), y(line.ys[i]));
      drawing = true;
    });
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  // The values at the pointer, or the last ones.
  say(pen, lines, cursor, axis, x, y) {
    const parts = [];
    if (cursor === null) parts.push({text: 'last values:'});
    else
      parts.push({text: axis === 'time' ? timeText(cursor) : `${axis} ${axis === 'step' ? Math.round(cursor) : short(cursor)}`});
    for (const line of lines) {
      let i = line.xs.length - 1;
      if (cursor !== null) while (i > 0 && Math.abs(line.xs[i - 1] - cursor) <= Math.abs(line.xs[i] - cursor)) --i;
      while (cursor === null && i > 0 && line.ys[i] === null) --i;
      if (i < 0 || line.ys[i] === null) continue;
      parts.push({text: `${line.name} ${short(line.ys[i])}`, color: colorOf(line.id)});
      if (cursor === null) continue;
      pen.fillStyle = colorOf(line.id);
      pen.beginPath(); pen.arc(x(line.xs[i]), y(line.ys[i]), 3.5, 0, 7); pen.fill();
    }
    this.values.replaceChildren(...parts.map(({text, color}) => {
      const span = document.createElement('span');
      span.textContent = text;
      if (color) span.style.color = color;
      return span;
    }));
  }
}
