// The table: as many rows of elements as the window shows, filled anew as it scrolls. Ten thousand courses cost as much
// as thirty.

import { grouped, moment, money } from "/static/money.js";

const ROW_PX = 36;
const HEAD_PX = 34; // stays in view above the rows
const SPARE = 4;
const FLASH_MS = 900;

export class Table {
  constructor(order, currency, opened) {
    this.order = order;
    this.currency = currency;
    this.opened = opened;
    this.grid = document.getElementById("grid");
    this.scroller = document.getElementById("scroller");
    this.space = document.getElementById("space");
    this.lines = [];
    this.active = null;
    this.selected = null;
    this.moved = new Map();
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.space.addEventListener("click", (event) => {
      const line = event.target.closest(".row");
      if (line) this.choose(line.dataset.course);
    });
  }

  /** Marks rows as just changed; `now` is performance.now(). */
  flash(changed, before, now) {
    for (const row of changed) {
      const old = before(row.course);
      if (old !== undefined) this.moved.set(row.course, { until: now + FLASH_MS, up: row.net >= old });
    }
  }

  draw() {
    const rows = this.order.rows;
    this.space.style.height = `${rows.length * ROW_PX}px`;
    this.grid.setAttribute("aria-rowcount", rows.length + 1);
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - SPARE);
    const wanted = Math.min(rows.length - first, Math.ceil(this.scroller.clientHeight / ROW_PX) + 2 * SPARE);
    while (this.lines.length < wanted) this.lines.push(this.line());
    const now = performance.now();
    let activeId = null;
    for (let number = 0; number < this.lines.length; number++) {
      const line = this.lines[number];
      const row = number < wanted ? rows[first + number] : undefined;
      const shown = !!row;
      if (line.shown !== shown) line.element.hidden = !(line.shown = shown);
      if (!row) continue;
      this.fill(line, row, first + number, now);
      if (row.course === this.active) activeId = line.element.id;
    }
    if (activeId) this.grid.setAttribute("aria-activedescendant", activeId);
    else this.grid.removeAttribute("aria-activedescendant");
    for (const [course, flash] of this.moved) if (flash.until < now) this.moved.delete(course);
  }

  fill(line, row, index, now) {
    const { element, cells } = line;
    if (line.index !== index) {
      line.index = index;
      element.style.transform = `translateY(${index * ROW_PX}px)`;
      element.setAttribute("aria-rowindex", index + 2);
      element.classList.toggle("odd", index % 2 === 1);
    }
    if (line.row !== row) {
      if (line.row?.course !== row.course) {
        element.dataset.course = row.course;
        cells.course.textContent = row.course;
        cells.course.title = row.course;
      }
      cells.net.textContent = money(row.net, this.currency());
      cells.net.classList.toggle("negative", row.net < 0n);
      cells.lines.textContent = grouped(row.lines);
      cells.time.textContent = moment(row.timeText);
      cells.flag.textContent = row.flagged ? "▲ missing" : "";
      element.classList.toggle("flagged", row.flagged);
      line.row = row;
    }
    const flash = this.moved.get(row.course);
    const mark = flash && flash.until >= now ? (flash.up ? "up" : "down") : "";
    if (line.mark !== mark) {
      line.mark = mark;
      element.dataset.moved = mark;
    }
    const active = row.course === this.active;
    if (line.active !== active) element.classList.toggle("active", (line.active = active));
    const selected = row.course === this.selected;
    if (line.selected !== selected) element.setAttribute("aria-selected", (line.selected = selected));
  }

  line() {
    const element = document.createElement("div");
    element.className = "row";
    element.id = `row-${this.lines.length}`;
    element.setAttribute("role", "row");
    const cells = {};
    for (const name of ["course", "net", "lines", "time", "flag"]) {
      const cell = (cells[name] = document.createElement("div"));
      cell.className = `c-${name}`;
      cell.setAttribute("role", name === "course" ? "rowheader" : "gridcell");
      element.append(cell);
    }
    this.space.append(element);
    return { element, cells, index: -1, row: null, mark: "", active: false, selected: null, shown: true };
  }

  key(event) {
    if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const rows = this.order.rows;
    const page = Math.max(1, Math.floor((this.scroller.clientHeight - HEAD_PX) / ROW_PX) - 1);
    const at = rows.findIndex((row) => row.course === this.active);
    const steps = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    if (event.key in steps && rows.length) {
      event.preventDefault();
      const to = Math.min(rows.length - 1, Math.max(0, steps[event.key]));
      this.active = rows[to].course;
      this.show(to);
    } else if ((event.key === "Enter" || event.key === " ") && this.active !== null) {
      event.preventDefault();
      this.choose(this.active);
    }
  }

  choose(course) {
    this.active = this.selected = course;
    this.draw();
    this.opened(course);
  }

  unselect() {
    this.selected = null;
    this.draw();
  }

  show(index) {
    const top = index * ROW_PX;
    const height = this.scroller.clientHeight - HEAD_PX;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW_PX > this.scroller.scrollTop + height) this.scroller.scrollTop = top + ROW_PX - height;
    this.draw();
  }
}
