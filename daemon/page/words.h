/* words: numbers and times as people read them, for the pages. Each function fills the caller's text and returns it. Any thread. */
#pragma once
#include "daemon/page/html.h"

struct words {
    char text[64];
};
const char *words_bytes(struct words *w, int64_t bytes);                     /* "1.4 GB"; "unknown" below 0 */
const char *words_duration(struct words *w, int64_t seconds);                /* "45 s", "3 min 20 s", "2 h 5 min", "3 d 4 h" */
const char *words_timer(struct words *w, int64_t seconds);                   /* "0:45", "1:02:03" */
const char *words_number(struct words *w, double value, const char *absent); /* a few significant digits */
const char *words_p(struct words *w, float p);                               /* a probability: "0.62"; "–" for NaN */
const char *words_seconds(struct words *w, double seconds);                  /* "0.3 s", "12 s" */
const char *words_time(struct words *w, int64_t wall_ms);                    /* "2026-11-25T03:04:05Z" */
const char *words_clock(struct words *w, int64_t wall_ms);                   /* "2026-11-25 04:04:05 CET", of this machine */
/* "<time>" of a moment, with its date and zone; "–" for 0. */
void words_put_time(struct html *h, int64_t wall_ms);
/* The same with hours and minutes alone where script is, and with the date where it was another day. */
void words_put_short_time(struct html *h, int64_t wall_ms);
