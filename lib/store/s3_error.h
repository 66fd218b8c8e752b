/* s3_error: interprets an answer of an S3 server: retry, or fail with an error and its fix. Pure; any thread. */
#pragma once
#include "store/fetch.h"

struct s3_error {
    char code[64]; /* from the XML body, or "" */
    bool transient, slow_down, skewed, expired, wrong_region;
};
void s3_error_read(const struct fetch_request *answer, struct s3_error *ret);
/* object: "s3://bucket/key"; tries: number of attempts made. */
int s3_error_set(const struct s3_error *e, const struct fetch_request *answer, const char *object, int tries, struct err *err);
