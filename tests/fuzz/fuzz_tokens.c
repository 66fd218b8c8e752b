/* Any bytes as a tokens file: a table or an error that names a line; what is in a table is found by its digest, and a token that a
 * later table lacks is revoked. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trust/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tokens *parse(const uint8_t *data, size_t size, const struct tokens *previous) {
    char *text = malloc(size + 1);
    struct tokens *t = NULL;
    struct err err = {0};
    if (!text)
        return NULL;
    memcpy(text, data, size);
    text[size] = '\0';
    int rc = tokens_parse(text, "fuzz", previous, &t, &err);
    if (rc ? t != NULL || err.code != rc || !strstr(err.message, "fuzz:") : t == NULL)
        abort();
    free(text);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char digest[TOKEN_DIGEST] = {0};
    struct token found;
    struct tokens *first = parse(data, size, NULL);
    if (!first)
        return 0;
    struct tokens *second = parse((const uint8_t *)"", 0, first);
    if (!second || tokens_count(second) != 0)
        abort();
    if (size >= TOKEN_DIGEST)
        memcpy(digest, data, TOKEN_DIGEST);
    enum token_result before = tokens_find(first, digest, 0, &found), after = tokens_find(second, digest, 0, &found);
    if (before == TOKEN_UNKNOWN ? after != TOKEN_UNKNOWN : after != TOKEN_REVOKED)
        abort();
    tokens_free(first);
    tokens_free(second);
    return 0;
}
