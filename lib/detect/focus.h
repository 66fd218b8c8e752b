/* focus: which channels carry what a model without a network finds, as bits in the order of its montage. Second by
 * second of the recording a channel's length is the mean distance from one mean of 31 ms to the next, which muscle and
 * mains hardly move; its evidence is ln((length + 1 µV)/(its own before + 1 µV)). A channel's own is known after 5 s:
 * the mean of its first 10 s, then a median that moves by at most a factor of 2 in 240 s; a gap keeps it. A channel has
 * no evidence in a second in which it moves with one other much more than with any third: the two share a loose
 * electrode. A second in which the third largest evidence is below ln 1.5 says nothing; in others the channels count
 * that reach this and 75 % of the second largest, which is taken for 1.5 at most. Its bits do not depend on how the rows
 * were divided into calls. One thread at a time. */
#pragma once

#include "base/base.h"
#include "base/pack.h"
#include "formats/side.h"

enum { FOCUS_CHANNELS = 32, FOCUS_EVENT_S = 10, FOCUS_ALARM_S = 5 };

struct focus;
struct focus *focus_new(int channels); /* at most FOCUS_CHANNELS; NULL: out of memory */
void focus_free(struct focus *f);      /* takes NULL */
OWNABLE(struct focus, focus_free)
/* A segment begins with this sample (256 Hz). */
void focus_start(struct focus *f, int64_t sample);
/* Its next n rows; the channels are the first values of each row of `columns` values. Seconds with held rows say
 * nothing. */
int focus_push(struct focus *f, const uint16_t *rows, int columns, int64_t n, bool held, struct err *err);
/* Of the whole seconds of [first, end) in which any channel counts, the first FOCUS_EVENT_S: the channels that count
 * in at least half of them. 0: none; or `first` lies before what is their own was known. */
uint32_t focus_of(const struct focus *f, int64_t first, int64_t end);
/* Nobody asks any more for what lies before this sample. */
void focus_forget(struct focus *f, int64_t sample);
/* The state between two calls, for snapshots; load into a new one of as many channels. False: what follows is no such
 * state, as in snapshots of earlier versions, and nothing was read. */
bool focus_pack(struct focus *f, struct packer *p);
/* The channels of a montage (eeg/frontend.h) as a list; "" for none. */
void focus_list(const char *montage, uint32_t bits, char ret[SIDE_LIST]);
