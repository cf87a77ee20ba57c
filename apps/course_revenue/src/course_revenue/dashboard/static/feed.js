// The stream from the server: what is known here, and whether it still comes.

const SILENCE_MS = 4000;
const GIVEN_UP_MS = 10_000;

/** Rows as the page holds them. Replaced, never changed, so that an old one still says where it stood. */
function rowOf([course, net, lines, flagged, time]) {
  return { course, folded: course.toLowerCase(), net: BigInt(net), lines: BigInt(lines), flagged: !!flagged, time: BigInt(time), timeText: time };
}

function pointOf([at, net, lines, flagged, courses]) {
  return { at, net: BigInt(net), lines: BigInt(lines), flagged, courses };
}

export class Feed {
  /** `told` is called after each frame with what changed; `heard` when the stream comes or ceases. */
  constructor(told, heard) {
    this.told = told;
    this.heard = heard;
    this.rows = new Map();
    this.points = [];
    this.sums = null;
    this.status = null;
    this.connected = false;
    this.lastHeard = performance.now();
    this.coming = null;
    this.place = "";
    this.open();
    document.addEventListener("visibilitychange", () => this.seen(!document.hidden));
    // not a question to anybody: a stream that hangs says nothing by itself
    setInterval(() => this.watch(), 1000);
  }

  /** Opens the stream, from where it was left if the server still knows that place. */
  open() {
    this.source?.close();
    this.lastHeard = performance.now();
    this.coming = null;
    this.source = new EventSource(this.place ? `/stream?after=${encodeURIComponent(this.place)}` : "/stream");
    this.source.onmessage = (event) => this.take(JSON.parse(event.data), event.lastEventId);
    this.source.onerror = () => this.set(false);
  }

  /** A page that nobody sees needs no stream; browsers have few connections for all their tabs. */
  seen(visible) {
    if (visible) this.open();
    else this.source.close();
  }

  watch() {
    if (document.hidden) return;
    const silent = performance.now() - this.lastHeard;
    if (silent > SILENCE_MS) this.set(false);
    // a browser gives up for good after some answers, and waits for ever on a connection that is gone without a word
    if (silent > GIVEN_UP_MS) this.open();
  }

  set(connected) {
    if (this.connected !== connected) {
      this.connected = connected;
      this.heard();
    }
  }

  take(frame, place) {
    this.lastHeard = performance.now();
    if (frame.full) this.coming = new Map();
    const whole = this.coming;
    if (whole) {
      for (const wire of frame.rows) whole.set(wire[0], rowOf(wire));
      if (frame.more) return;
      this.rows = whole;
      this.coming = null;
      this.points = [];
    }
    this.place = place;
    const changed = [];
    if (!whole && frame.rows) {
      for (const wire of frame.rows) {
        const row = rowOf(wire);
        this.rows.set(row.course, row);
        changed.push(row);
      }
      for (const course of frame.gone) this.rows.delete(course);
    }
    if (frame.points) {
      for (const wire of frame.points) {
        const point = pointOf(wire);
        // after a clock that was set back a plot of both times would say nothing
        if (this.points.length && point.at < this.points[this.points.length - 1].at) this.points = [];
        this.points.push(point);
      }
      const oldest = this.points.length ? this.points[this.points.length - 1].at - 600_000 : 0;
      const from = this.points.findIndex((point) => point.at >= oldest);
      if (from > 0) this.points.splice(0, from);
    }
    if (frame.sums) {
      this.sums = { ...frame.sums, net: BigInt(frame.sums.net_cents), lines: BigInt(frame.sums.lines) };
    }
    if (frame.status) this.status = frame.status;
    this.set(true);
    this.told({ whole: !!whole, changed, removed: whole ? [] : frame.gone ?? [], points: !!frame.points, status: !!frame.status });
  }
}
