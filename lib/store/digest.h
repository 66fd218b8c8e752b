/* digest: SHA-256, incremental and of whole files. One thread per digest. */
#ifndef BRR_STORE_DIGEST_H
#define BRR_STORE_DIGEST_H
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { DIGEST_HEX_SIZE = 65 };

struct digest;
struct digest *digest_new(void); /* NULL when out of memory */
void digest_update(struct digest *d, const void *data, size_t len);
/* Lower-case hex of what was fed so far, and free d. false with an empty text (no digest, never a wrong one) when d is NULL
 * or the library failed on the way. */
bool digest_finish(struct digest *d, char ret_hex[DIGEST_HEX_SIZE]);
bool digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]);
/* Reads the file in blocks. */
int digest_file(const char *path, char ret_hex[DIGEST_HEX_SIZE], struct err *err);
/* 64 lower-case hex digits and nothing else. */
bool digest_is_hex(const char *text);

#endif
