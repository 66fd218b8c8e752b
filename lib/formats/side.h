/* side: the channels that carry an event as texts: a list of names, as event files have it, and on which side of the
 * head these lie by the names of the 10-20 system: odd numbers left, even ones right. Pure functions; any thread. */
#pragma once

#include "base/base.h"

enum { SIDE_LIST = 160, SIDE_TEXT = 96 };

/* The channels of these bits: "F7-T3,T3-T5"; "all"; "" for none, or where they do not fit. */
void side_list(const char *const *names, int n, uint32_t bits, char ret[SIDE_LIST]);
/* Of a list: "left" or "right" where at least three times as many of its channels lie on this side as on the other,
 * "midline" where none lies on a side, else "both"; "" where a name is none of the 10-20 system, and of an empty list.
 */
const char *side_of(const char *list);
/* For people, of a list: "left: F7-T3, T3-T5 and 3 more"; "" of an empty one. */
void side_text(const char *list, char ret[SIDE_TEXT]);
