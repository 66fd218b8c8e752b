/* Any bytes as what a client shows for a certificate, to a CA of our own: never valid, and never more than a result. The same
 * bytes as the file of CAs, and as a pair, are an error or usable. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trust/certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct authorities *own_authorities(void) {
    static struct authorities *own; /* made once: keys cost time */
    struct certificate_pair ca;
    if (own)
        return own;
    if (certificate_make_authority("fuzz", &ca, NULL) || authorities_read(ca.certificate, &own, NULL))
        abort();
    certificate_pair_done(&ca);
    return own;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char name[CERTIFICATE_NAME_SIZE];
    const char *why = NULL;
    struct err err = {0};
    int64_t until_ms = 0;
    if (authorities_verify(own_authorities(), (const char *)data, size, name, &why) == CERTIFICATE_VALID || !why ||
        strlen(name) >= sizeof name)
        abort();
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    struct authorities *others = NULL;
    int rc = authorities_read(text, &others, &err);
    if (rc ? others != NULL || !err.message[0] : others == NULL)
        abort();
    authorities_free(others);
    certificate_check_pair(text, text, &until_ms, &err);
    free(text);
    return 0;
}
