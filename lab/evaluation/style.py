# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Style and script of the page; both are part of it. It can be read without the script, which only
adds sorting, filters and buttons that copy commands.
"""

from __future__ import annotations

STYLE = """
body { max-width: 66rem; overflow-wrap: break-word }
h1 { margin-bottom: .3rem } h2 { font-size: 1.35rem; margin-top: 3.2rem; padding-bottom: .25rem;
  border-bottom: 2px solid #222 }
h3 { font-size: 1.08rem; margin: 2.4rem 0 .2rem } h4 { font-size: 1rem; margin: 1.2rem 0 .3rem }
h3 code { font-size: .95em; margin-right: .4rem }
a { color: #00558c } code { font-size: .9em; background: #f2f2f2; padding: .08rem .3rem }
pre code { background: none; padding: 0 } pre { overflow-x: auto }
p.meta, .note, caption { color: #555 } p.meta { margin: 0 0 .6rem; font-size: .9rem }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem }
table { width: 100%; font-size: .9rem; margin: .8rem 0 } caption { text-align: left;
  font-size: .85rem; padding-bottom: .3rem }
thead th { border-bottom: 1px solid #222; vertical-align: bottom }
tbody th { font-weight: normal } td.n, th.n { text-align: right }
td.n { font-variant-numeric: tabular-nums } tbody th, td.name { overflow-wrap: anywhere }
div.wide { overflow-x: auto } table.dense { font-size: .82rem }
table.dense > * > tr > * { padding-right: .5rem } tr > :last-child { padding-right: 0 }
table.experiments th:first-child { min-width: 12rem }
tr.detail td { padding: .1rem 0 .7rem 1.2rem; color: #444 } tr.detail p { margin: .2rem 0 }
tr:has(+ tr.detail) > * { border-bottom: none }
ul.shown { margin: .2rem 0; padding: 0; list-style: none; columns: 24rem auto; column-gap: 2rem }
ul.shown li { break-inside: avoid; display: flex; justify-content: space-between; gap: 1rem;
  font-size: .85rem } ul.shown li.nearest { font-weight: bold }
dl.summary { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.2rem, 1fr));
  gap: .8rem; margin: 1.4rem 0 } dl.summary div { border-top: 2px solid #222; padding-top: .3rem;
  display: flex; flex-direction: column-reverse; justify-content: flex-end }
dl.summary dt { font-size: .82rem; color: #555 } dl.summary dd { margin: 0; font-size: 1.7rem;
  line-height: 1.2; font-variant-numeric: tabular-nums }
dl.given { display: grid; grid-template-columns: minmax(8rem, auto) 1fr; gap: .15rem 1.2rem;
  font-size: .9rem } dl.given dd { margin: 0 }
.accepted { color: #7d4a00 } .within { color: #00704a } .deviates { color: #b00020;
  font-weight: bold } .unmeasured, .missing { color: #555 } .stale { color: #7d4a00 }
p.flag { border-left: 3px solid #7d4a00; padding: .1rem 0 .1rem .8rem; margin: .6rem 0 }
p.flag.missing { border-color: #777; color: #444 }
figure { margin: 1rem 0; overflow-x: auto } figure svg { min-width: 27rem; max-width: 46rem;
  display: block } figure svg text { font-family: system-ui, sans-serif !important }
figure.own svg { max-width: 100%; min-width: 36rem } figcaption { font-size: .85rem; color: #555 }
details { margin: .5rem 0 } summary { cursor: pointer; color: #00558c }
ul.run { list-style: none; padding: 0; margin: .4rem 0; font-size: .9rem }
ul.run li { margin: .15rem 0 } ul.run .what { color: #555 }
button { font: inherit; font-size: .85em; border: 1px solid #bbb; background: #fff; color: #222;
  cursor: pointer; border-radius: 3px; padding: 0 .4rem }
th button { border: 0; padding: 0; font-weight: bold; font-size: 1em; text-align: inherit }
th button::after { content: "\\a0\\2195"; color: #999 }
th[aria-sort=ascending] button::after { content: "\\a0\\2191"; color: #222 }
th[aria-sort=descending] button::after { content: "\\a0\\2193"; color: #222 }
:focus-visible { outline: 2px solid #00558c; outline-offset: 2px }
form.filter { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: end;
  font-size: .85rem } form.filter[hidden], tr[hidden] { display: none !important }
form.filter label { display: grid } form.filter input, form.filter select { font: inherit;
  padding: .15rem .3rem; max-width: 13rem }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
@media (max-width: 42rem) {
  body { margin: 1rem auto } table.cards, table.cards tbody, table.cards tr, table.cards td,
  table.cards th, table.cards caption { display: block } table.cards thead { position: absolute;
    width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  table.cards tr { padding: .5rem 0; border-bottom: 1px solid #ddd }
  table.cards tr:has(+ tr.detail) { border-bottom: none; padding-bottom: 0 }
  table.cards tr > * { border: 0; padding: .05rem 0 } table.cards tbody th { font-weight: bold }
  table.cards td[data-label] { display: flex; justify-content: space-between; gap: 1rem;
    text-align: right; white-space: normal } table.cards td[data-label]:empty { display: none }
  table.cards td[data-label]::before { content: attr(data-label); color: #555; text-align: left }
  tr.detail td { padding-left: 0 } .readme table { display: block; overflow-x: auto }
}
@media print {
  body { font-size: 10pt; max-width: none; margin: 0 } nav, form.filter, button, .screen {
    display: none !important } th button { display: inline !important }
  th button::after { content: "" !important } h2, h3, h4, caption { break-after: avoid }
  tr, figure, li { break-inside: avoid } figure { overflow: visible } figure svg { min-width: 0 }
  section.paper { break-before: page } details.readme::details-content { content-visibility:
    visible; height: auto; display: block } a { color: inherit; text-decoration: none }
}
"""

SCRIPT = """
'use strict';
const value = cell => cell.dataset.order !== undefined ? Number(cell.dataset.order)
  : cell.textContent.trim();
const compare = (a, b) => a === '' || b === '' ? (a === '') - (b === '')
  : typeof a === typeof b && typeof a === 'number' ? a - b
  : String(a).localeCompare(String(b), 'en', {numeric: true});

// A row and the detail below it move and hide together.
const groups = body => {
  const found = [];
  for (const row of body.rows) {
    if (row.classList.contains('detail')) found[found.length - 1].push(row);
    else found.push([row]);
  }
  return found;
};

document.querySelectorAll('table[id]').forEach(table => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = group => value(group[0].cells[column]);
      const sorted = groups(body).sort((a, b) => {
        const [left, right] = [key(a), key(b)];
        const empty = left === '' || right === '';
        return down && !empty ? compare(right, left) : compare(left, right);
      });
      sorted.forEach(group => body.append(...group));
    });
  });
});

document.querySelectorAll('form.filter').forEach(form => {
  const body = document.getElementById(form.dataset.table).tBodies[0];
  const shown = form.querySelector('output');
  const apply = () => {
    const words = form.elements.words.value.toLowerCase().split(/\\s+/).filter(Boolean);
    const wanted = [...form.querySelectorAll('select')].filter(select => select.value);
    let count = 0;
    for (const group of groups(body)) {
      const text = group.map(row => row.textContent).join(' ').toLowerCase();
      const fits = words.every(word => text.includes(word)) && wanted.every(select =>
        (group[0].dataset[select.name] || '').split(' ').includes(select.value));
      group.forEach(row => { row.hidden = !fits; });
      count += fits;
    }
    shown.textContent = `${count} of ${groups(body).length}`;
  };
  form.hidden = false;
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.addEventListener('reset', () => setTimeout(apply));
  apply();
});

document.querySelectorAll('code.command').forEach(code => {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.setAttribute('aria-label', `Copy the command ${code.textContent}`);
  button.addEventListener('click', async () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Selected';  // a page of file:// may have no clipboard
    }
  });
  code.after(' ', button);
});
"""
