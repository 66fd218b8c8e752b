/* text: a small text file, read whole and made uniform, whatever program wrote it: lines end with '\n' (CRLF and CR become LF), a
 * byte order mark is removed, UTF-16 with one becomes UTF-8, and so does Windows-1252, in which spreadsheets save their "CSV":
 * text that is no UTF-8 and has no UTF-8 character of several bytes. Other bytes stay as they are.
 * Control characters become '?'. Any thread. */
#pragma once

#include "base/base.h"

/* Returns malloc'd, NUL-terminated text and its length. Errors: those of the file; EXHAUSTED for more than max_bytes; INVALID for
 * a NUL byte, which no text file has. */
int text_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len, struct err *err);
/* Makes malloc'd text, NUL-terminated, uniform but for its line ends; *text may move, and stays the caller's after an error. */
int text_decode(const char *path, char **text, size_t *len, struct err *err);
/* Converts n bytes that are no UTF-8 from the encoding that the environment variable BRR_TEXT_ENCODING names (as iconv does:
 * GB18030, SHIFT_JIS, EUC-KR), as far as they fit into `to` and can be read. False without one that this system knows. */
bool text_convert(const char *bytes, size_t n, char *to, size_t size);
/* Writes a Unicode character as UTF-8, at most 4 bytes; returns how many. */
size_t text_put_utf8(char *to, uint32_t code);
/* Cuts the next line out of a text in place, without its line end; NULL behind the last one. *next moves. */
char *text_line(char **next);
