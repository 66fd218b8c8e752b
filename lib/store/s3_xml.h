/* s3_xml: the little of XML that S3 answers with: elements by name, without attributes that matter. Pure; any thread. */
#ifndef BRR_STORE_S3_XML_H
#define BRR_STORE_S3_XML_H
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Content of the first <tag>…</tag> in [*from, end): its start, with *ret_len, and *from moved behind it. NULL when there is none.
 */
const char *s3_xml_find(const char **from, const char *end, const char *tag, size_t *ret_len);
/* The same as text with entities resolved, cut to size; false when absent or cut (buf is then what fitted). */
bool s3_xml_text(const char *xml, size_t len, const char *tag, char *buf, size_t size);
/* %XX and '+' of encoding-type=url resolved in place; false for a malformed or NUL byte. */
bool s3_xml_url_decode(char *text);
void s3_xml_escape(const char *text, struct str *out);

#endif
