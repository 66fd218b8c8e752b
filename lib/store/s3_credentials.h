/* s3_credentials: where the key of an S3 store comes from. Any thread. */
#ifndef BRR_STORE_S3_CREDENTIALS_H
#define BRR_STORE_S3_CREDENTIALS_H
#include "base/err.h"

struct s3_credentials {
    char id[160], secret[256], token[8192]; /* token "" = none */
};

/* spec: NULL = AWS_ACCESS_KEY_ID and its kin from the environment, else the shared file ($AWS_SHARED_CREDENTIALS_FILE or
 * ~/.aws/credentials, profile $AWS_PROFILE or default); "env"; "file:PATH#profile"; "systemd:NAME" (a file of that form in
 * $CREDENTIALS_DIRECTORY). UNAUTHENTICATED names what was looked at and the mend; "imds" is UNSUPPORTED. */
int s3_credentials_load(const char *spec, struct s3_credentials *ret, struct err *err);

#endif
