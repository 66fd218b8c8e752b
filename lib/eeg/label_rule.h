/* label_rule: what the type of an event, or the text of an annotation, says about its time: a seizure, unsure, or something else.
 * Pure functions; any thread.
 *
 * A rule is a text: the format of the labels (labels.h), then patterns, each after a line end. A pattern is found in a text at the
 * beginning of a word and up to the end of one, whatever the case of letters; where it begins or ends with a digit, it is found
 * only at the end of a number ("1" not in "10", "-1" or "1.5"). '*' stands for any characters. "!pattern" is no seizure, "?pattern"
 * is unsure; the last pattern that is found decides. Without one: a text that begins with the word "sz", "seiz", "seizure" or
 * "seizures", or with one of the eleven TUSZ codes of seizures, is a seizure ("seizure-free" is none); and "unknown" is unsure. A
 * seizure whose text has a question mark is unsure. Only letters belong to a word: "sz_foc" begins with "sz", "Szymon" does not. */
#pragma once

#include "base/base.h"

enum label_class { LABEL_OTHER, LABEL_SEIZURE, LABEL_UNSURE };

/* rule NULL: no patterns. */
enum label_class label_rule_class(const char *rule, const char *text);
/* A text by which somebody who looked for seizures says that there is none: "bckg…", "background". */
static inline bool label_is_background(const char *text) {
    return !strncasecmp(text, "bckg", 4) || !strcasecmp(text, "background");
}
/* The format in front of the patterns. Returns buf, "" when it does not fit. */
enum { LABEL_FORMAT_SIZE = 32 };
const char *label_rule_format(const char *rule, char buf[LABEL_FORMAT_SIZE]);
/* Writes the rule of a format and n patterns. Errors: INVALID names a pattern that is blank or has a line end; RANGE. */
enum { LABEL_RULE_SIZE = 4096 };
int label_rule_write(const char *format, const char *const *patterns, size_t n, char ret[LABEL_RULE_SIZE], struct err *err);
