/* s3_xml: reads the XML of S3 answers: elements by name; attributes are ignored. Pure; any thread. */
#pragma once

#include "base/base.h"

/* Finds the first <tag>…</tag> in [*from, end): returns the start of its content and *ret_len, and moves *from behind it. NULL when
 * there is none. */
const char *s3_xml_find(const char **from, const char *end, const char *tag, size_t *ret_len);
/* The same as text with entities resolved, truncated to size; false when absent or truncated (buf then holds the part that fitted).
 */
bool s3_xml_text(const char *xml, size_t len, const char *tag, char *buf, size_t size);
/* Decodes %XX and '+' of encoding-type=url in place; false for a malformed or NUL byte. */
bool s3_xml_url_decode(char *text);
void s3_xml_escape(const char *text, struct str *out);
