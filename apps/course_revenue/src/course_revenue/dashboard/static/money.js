// Amounts and counts as people read them. Cents are BigInt throughout: a total has 64 bits, and a sum may have more.

const SIGNS = { eur: "€", usd: "$" };

/** Digits in groups of three. */
export function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** Cents such as 123405n as "€1,234.05"; exact for any size. */
export function money(cents, currency) {
  const negative = cents < 0n;
  const digits = (negative ? -cents : cents).toString().padStart(3, "0");
  const sign = SIGNS[currency] ?? `${currency.toUpperCase()} `;
  return `${negative ? "−" : ""}${sign}${grouped(digits.slice(0, -2))}.${digits.slice(-2)}`;
}

/** A change of cents with its sign. */
export function change(cents, currency) {
  return cents > 0n ? `+${money(cents, currency)}` : money(cents, currency);
}

/** A rate: whole from ten on. */
export function rate(perSecond) {
  return perSecond >= 9.95 || perSecond === 0 ? grouped(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** How long something took, in the one or two greatest units. */
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 99.5) return `${Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${grouped(Math.floor(hours / 24))} days`;
}

/** An event time in UTC, to the second; the bare number where the calendar ends. */
export function moment(text) {
  const date = new Date(Number(text));
  return Number.isNaN(date.getTime()) ? text : date.toISOString().slice(0, 19).replace("T", " ");
}

/** A time of day here. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}
