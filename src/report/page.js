// Shows the values under the pointer in the readout of each figure. Everything else of the page works without it.
'use strict';
const svgNamespace = 'http://www.w3.org/2000/svg';

const shown = (value) =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(4)));

// The index of the value in a rising list that is nearest to `x`.
function nearest(list, x) {
  let low = 0, high = list.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (list[middle] < x) low = middle; else high = middle;
  }
  return Math.abs(list[low] - x) <= Math.abs(list[high] - x) ? low : high;
}

function element(name, attributes, parent) {
  const made = document.createElementNS(svgNamespace, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}

function followCurves(figure, data) {
  const svg = figure.querySelector('svg'), readout = figure.querySelector('.readout');
  const [x0, x1, left, right, logX] = data.x, [y0, y1, bottom, top, logY] = data.y;
  const share = (value, low, high, log) => log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  const toX = (value) => left + (right - left) * share(value, x0, x1, logX);
  const toY = (value) => bottom + (top - bottom) * share(value, y0, y1, logY);
  const rest = [...readout.childNodes], marks = element('g', {}, svg);

  function show(event) {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const part = (at - left) / (right - left), x = logX ? x0 * (x1 / x0) ** part : x0 + (x1 - x0) * part;
    let best = null;
    for (const series of data.series) {
      const found = series.x[nearest(series.x, x)];
      if (best === null || Math.abs(found - x) < Math.abs(best - x)) best = found;
    }
    marks.replaceChildren();
    element('path', {class: 'cursor', d: `M${toX(best)} ${top}V${bottom}`}, marks);
    readout.replaceChildren(`${data.name} ${shown(best)}: `);
    for (const series of data.series) {
      const i = nearest(series.x, best), key = document.createElement('span'), y = series.y[i];
      key.className = `key s${series.colour}`;
      let text = `${series.name} ${shown(y)}`;
      if (series.low && series.low[i] < series.high[i]) text += ` (${shown(series.low[i])} to ${shown(series.high[i])})`;
      if (series.x[i] !== best) text += ` at ${shown(series.x[i])}`;
      readout.append(key, `${text} `);
      element('circle', {class: `mark s${series.colour}`, cx: toX(series.x[i]), cy: toY(y), r: 4}, marks);
    }
  }
  svg.addEventListener('pointermove', show);
  svg.addEventListener('pointerdown', show);
  svg.addEventListener('pointerleave', () => {
    marks.replaceChildren();
    readout.replaceChildren(...rest);
  });
}

function followTips(figure) {
  const readout = figure.querySelector('.readout');
  if (!readout) return;
  const rest = readout.textContent;
  const show = (event) => { readout.textContent = event.target.dataset.tip ?? rest; };
  figure.addEventListener('pointermove', show);
  figure.addEventListener('pointerdown', show);
  figure.addEventListener('pointerleave', () => { readout.textContent = rest; });
}

for (const figure of document.querySelectorAll('figure')) {
  const data = figure.querySelector('script');
  if (data) followCurves(figure, JSON.parse(data.textContent)); else followTips(figure);
}
