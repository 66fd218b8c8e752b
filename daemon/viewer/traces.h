/* traces: EEG for the script of the viewer (assets/viewer.js): one line of JSON that says what it is, a line break, at most one
 * byte of padding to an even length, and the values row by row as little-endian 16-bit numbers of `scale` microvolts, −32768 where
 * none was measured. `held` lists the samples that were not measured because a value before them was held. An answer holds samples
 * of at most TRACES_SAMPLES_S, or the lowest and the highest value of at most TRACES_BINS bins of at most TRACES_BINNED_S, and of
 * these what the source has. Any thread. */
#pragma once
#include "base/json.h"
#include "daemon/viewer/eegring.h"

enum { TRACES_SAMPLES_S = 15, TRACES_BINNED_S = 3600, TRACES_BINS = 4000, TRACES_BIN = 1 << 16, TRACES_BYTES = 4 << 20 };

struct traces_query {
    int64_t from, n; /* samples; from −1: the newest n */
    int64_t bin;     /* 1: samples; else so many samples in a bin, and from and n whole bins */
};
/* Reads "from", "n" and "bin" of a request's arguments; NULL: the default. INVALID names the argument. */
int traces_query_read(const char *from, const char *n, const char *bin, struct traces_query *ret, struct err *err);
/* What of a query is answered, by a source at this rate that has samples of `has`. INVALID: it asks for more than an answer holds.
 */
int traces_fit(struct traces_query *q, double rate_hz, struct eegring_span has, struct err *err);
void traces_put_values(struct str *out, const int16_t *values, int64_t n);
/* The key "held": spans [first, end) of samples that are held in all of `rows` rows, or in those whose numbers follow; of bins
 * those with such samples. held: the rows, as bits, of each sample or bin of the query. */
void traces_put_held(struct json_writer *w, const struct traces_query *q, const uint64_t *held, int rows);
/* Of a stream. on: threshold of its alarm, 0 = unknown; live: samples may follow. INVALID: the query asks for more than an answer
 * holds. */
struct traces_stream {
    const struct eegring *eeg;
    double on;
    bool live;
};
int traces_of_stream(const struct traces_stream *s, const struct traces_query *query, struct str *out, struct err *err);
