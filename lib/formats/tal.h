/* tal: parser of time-stamped annotation lists, the byte format of EDF+ and BDF+ annotation signals, and the text clean-up shared
 * by headers and annotations. Independent of files and records. Pure functions, any thread. Source: the EDF+ specification,
 * section 2.2 (www.edfplus.info). Accepts the deviations of real writers: lists joined without the NUL between them, a single 0x14
 * after a time-keeping onset, comma decimals, Latin-1 text. */
#pragma once
#include "base/base.h"

/* One text of a list; a list with several texts gives several items. A list without any text gives one with text_len 0. */
struct tal_item {
    double onset_s;
    double duration_s; /* NaN when not given */
    const uint8_t *text;
    size_t text_len;
    size_t list;     /* number of the list within the bytes, from 0 */
    bool first_text; /* the first of its list: empty in a time-keeper */
};
/* Return 0 to continue; any other value ends the parse and is returned. */
typedef int tal_visit_fn(void *ctx, const struct tal_item *item);

/* Visits every item of one record's annotation bytes. *ret_faults (may be NULL) counts malformed lists; parsing continues after the
 * next NUL. */
int tal_parse(const uint8_t *bytes, size_t len, tal_visit_fn *visit, void *ctx, size_t *ret_faults);

/* Trimmed UTF-8 text of bytes: cut at the first NUL, blanks at both ends removed, Latin-1 converted when it is not valid UTF-8,
 * control characters replaced by '?' (tab and newlines by a blank). Writes at most size bytes with the NUL; returns the length.
 * `size` of 2 · len + 1 always suffices. *ret_foreign (may be NULL) is set when any byte was not printable ASCII. */
size_t tal_text(char *out, size_t size, const uint8_t *bytes, size_t len, bool *ret_foreign);
