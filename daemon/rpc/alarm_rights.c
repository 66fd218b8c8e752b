#include "daemon/rpc/alarm_rights.h"

#include "daemon/rpc/auth.h"

int alarm_rights_permit(void *ctx, const char *principal, const char *bed, struct err *err) {
    const struct auth_caller *caller = ctx;
    if (!auth_sees_bed(caller, principal, bed))
        return err_set(err, ERR_NOT_FOUND, "%s sees no such alarm or bed", caller->name);
    if (auth_answers(caller, principal, bed))
        return 0;
    if (!caller->has_token)
        return err_set(err, ERR_DENIED,
                       "%s may not answer for '%.60s': without a token only root and the daemon's user may; use sudo, or a token "
                       "whose line has the word answer (brrctl tls token --answer)",
                       caller->name, bed);
    return err_set(err, ERR_DENIED,
                   "%s may not answer for '%.60s'; its token's line needs the word answer (brrctl tls token --answer), and the "
                   "bed among names= if it has that",
                   caller->name, bed);
}
