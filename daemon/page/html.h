/* html: writes HTML. Every text that is filled in is escaped here and nowhere else, so that no name of a client, a model or a file
 * can become markup. One thread per object. */
#pragma once
#include "base/base.h"

enum { HTML_MAX_BYTES = 16 << 20 };

struct html {
    struct str out;
};
static inline struct html html_of(void) { return (struct html){str_of(HTML_MAX_BYTES)}; }
void html_done(struct html *h);
/* fmt is markup, a constant of the program. In it %s is filled in as escaped text (element content and quoted attribute values);
 * %d, %lld, %zu, %.Nf and %.*f are numbers; %% is a percent sign. Nothing else is known. A NULL text writes nothing
 * (str_or_empty). */
void html_put(struct html *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text as part of a URL's path: all but unreserved characters as %XX. */
void html_put_url(struct html *h, const char *text);
/* Escaped text of len bytes: & < > " ' as entities; invalid UTF-8 and control characters but tab and newline as U+FFFD. */
void html_put_text(struct html *h, const char *text, size_t len);
