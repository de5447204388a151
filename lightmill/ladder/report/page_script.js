'use strict';
// Sorting: a click on a column's head; a second click turns the order round.
document.querySelectorAll('table.rungs th').forEach((head, column) => {
  const button = document.createElement('button');
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener('click', () => {
    const body = head.closest('table').tBodies[0];
    const up = head.getAttribute('aria-sort') !== 'ascending';
    head.parentElement.querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const key = (row) => row.cells[column]?.dataset.v ?? '';
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === '' || y === '') return (x === '') - (y === '');  // what has no value stays last
      const numbers = Number(x) - Number(y);
      const by = Number.isNaN(numbers) ? x.localeCompare(y) : numbers;
      return up ? by : -by;
    };
    [...body.rows].sort(order).forEach((row) => body.append(row));
  });
});
// Browsers show <title> under a mouse; under a finger this does.
const tip = document.createElement('div');
tip.id = 'tip';
document.addEventListener('pointerdown', (event) => {
  tip.remove();
  const title = event.target.closest?.('svg *')?.querySelector('title');
  if (!title || event.pointerType === 'mouse') return;
  tip.textContent = title.textContent;
  document.body.append(tip);
  tip.style.left = Math.min(event.pageX, document.documentElement.clientWidth - tip.offsetWidth - 8) + 'px';
  tip.style.top = event.pageY - tip.offsetHeight - 14 + 'px';
});
