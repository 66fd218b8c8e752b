/* digest: SHA-256, incremental and of whole files. One thread per digest. */
#pragma once

#include "base/base.h"

enum { DIGEST_HEX_SIZE = 65 };

struct digest;
struct digest *digest_new(void); /* NULL when out of memory */
void digest_update(struct digest *d, const void *data, size_t len);
/* Returns the lower-case hexadecimal digest of all bytes fed and frees d. false and an empty text (never a wrong digest) when d is
 * NULL or the library failed. */
bool digest_finish(struct digest *d, char ret_hex[DIGEST_HEX_SIZE]);
bool digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]);
/* Reads the file in blocks. */
int digest_file(const char *path, char ret_hex[DIGEST_HEX_SIZE], struct err *err);
/* True for exactly 64 lower-case hexadecimal digits. */
bool digest_is_hex(const char *text);
