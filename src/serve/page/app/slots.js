// Limits the answers that are received at a time. Browsers open six connections to a host over HTTP/1.1 in all tabs
// together; two are left for the page itself.
const kSlots = 4;
const waiting = [];
let taken = 0;

/** Takes a slot of this tab and then, if the browser has locks, a slot that all tabs share. */
export async function takeSlot(signal) {
  const leave = await takeOwn(signal);
  try {
    const unlock = navigator.locks ? await takeShared(signal) : () => {};
    return () => { unlock(); leave(); };
  } catch (error) {
    leave();
    throw error;
  }
}

async function takeOwn(signal) {
  signal.throwIfAborted();
  if (taken >= kSlots) {
    await new Promise((resolve, reject) => {
      waiting.push(resolve);
      signal.addEventListener("abort", () => {
        const at = waiting.indexOf(resolve);
        if (at < 0) return;
        waiting.splice(at, 1);
        reject(signal.reason);
      });
    });
  } else {
    taken++;
  }
  return () => {
    const next = waiting.shift();
    if (next) next();  // passes the slot on
    else taken--;
  };
}

// Asks for every lock and keeps the first that is granted. A lock ends with its tab.
function takeShared(signal) {
  return new Promise((resolve, reject) => {
    const others = new AbortController();
    let got = false;
    signal.addEventListener("abort", () => {
      if (got) return;
      others.abort();
      reject(signal.reason);
    });
    for (let i = 0; i < kSlots; i++) {
      navigator.locks.request(`veery-answer-${i}`, { signal: others.signal }, () => {
        if (got || signal.aborted) return undefined;
        got = true;
        others.abort();
        return new Promise((unlock) => resolve(unlock));
      }).catch(() => {});
    }
  });
}
