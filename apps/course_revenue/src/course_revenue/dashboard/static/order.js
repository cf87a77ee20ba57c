// The order of the table's rows, kept up as rows change: what changed is sorted and merged into the rest, so a frame
// costs a pass over the rows and never a sort of all of them.

const by = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

const KEYS = {
  course: (a, b) => by(a.course, b.course),
  net: (a, b) => by(a.net, b.net),
  lines: (a, b) => by(a.lines, b.lines),
  time: (a, b) => by(a.time, b.time),
  flag: (a, b) => a.flagged - b.flagged,
};

export class Order {
  constructor() {
    this.key = "net";
    this.descending = true;
    this.needle = "";
    this.onlyFlagged = false;
    this.rows = [];
    this.all = new Map();
  }

  /** Everything anew: other rows, another key, another filter. */
  reset(all = this.all) {
    this.all = all;
    this.rows = [...all.values()].filter((row) => this.admits(row)).sort(this.compare);
  }

  /** Takes in rows that were replaced: old row objects by new ones. */
  replace(changed, removed) {
    if (!changed.length && !removed.length) return;
    const stale = new Set(removed);
    for (const row of changed) stale.add(row.course);
    const kept = this.rows.filter((row) => !stale.has(row.course));
    const fresh = changed.filter((row) => this.admits(row)).sort(this.compare);
    const merged = [];
    let at = 0;
    for (const row of fresh) {
      while (at < kept.length && this.compare(kept[at], row) <= 0) merged.push(kept[at++]);
      merged.push(row);
    }
    while (at < kept.length) merged.push(kept[at++]);
    this.rows = merged;
  }

  admits(row) {
    return (!this.onlyFlagged || row.flagged) && (!this.needle || row.folded.includes(this.needle));
  }

  compare = (a, b) => {
    const first = KEYS[this.key](a, b);
    return (this.descending ? -first : first) || KEYS.course(a, b);
  };
}
