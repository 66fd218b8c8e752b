#include "store/s3_credentials.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fsio.h"
#include "base/str.h"

enum { FILE_MAX = 1 << 20, PATH_BYTES = 4096 };

static int too_long(const char *where, struct err *err) {
    return err_set(err, ERR_UNAUTHENTICATED, "%s: a credential is longer than any S3 server gives out", where);
}

/* NOT_FOUND when the environment holds no key. */
static int from_environment(struct s3_credentials *ret, struct err *err) {
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY"), *token = getenv("AWS_SESSION_TOKEN");
    if (!id || !*id)
        return err_set(err, ERR_NOT_FOUND, "AWS_ACCESS_KEY_ID is not set");
    if (!secret || !*secret)
        return err_set(err, ERR_UNAUTHENTICATED, "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not; set both");
    bool fits = str_copy(ret->id, sizeof ret->id, id) && str_copy(ret->secret, sizeof ret->secret, secret) &&
                str_copy(ret->token, sizeof ret->token, token ? token : "");
    return fits ? 0 : too_long("environment", err);
}

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Take "[profile]" or "[profile NAME]" lines and "key = value" below the wanted one. */
static bool read_profile(char *text, const char *profile, struct s3_credentials *ret) {
    bool inside = false, fits = true;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        line = trim(line);
        if (*line == '[') {
            char *end = strchr(line, ']');
            if (end)
                *end = '\0';
            const char *name = trim(line + 1);
            inside = !strcmp(str_starts(name, "profile ") ? name + 8 : name, profile);
            continue;
        }
        char *equals = strchr(line, '=');
        if (!inside || !equals || *line == '#' || *line == ';')
            continue;
        *equals = '\0';
        const char *key = trim(line), *value = trim(equals + 1);
        if (!strcmp(key, "aws_access_key_id"))
            fits = str_copy(ret->id, sizeof ret->id, value) && fits;
        else if (!strcmp(key, "aws_secret_access_key"))
            fits = str_copy(ret->secret, sizeof ret->secret, value) && fits;
        else if (!strcmp(key, "aws_session_token"))
            fits = str_copy(ret->token, sizeof ret->token, value) && fits;
    }
    return fits;
}

static int from_file(const char *path, const char *profile, struct s3_credentials *ret, struct err *err) {
    char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(path, FILE_MAX, &text, &len, err);
    if (rc)
        return rc;
    bool fits = read_profile(text, profile, ret);
    explicit_bzero(text, len);
    free(text);
    if (!fits)
        return too_long(path, err);
    if (!*ret->id || !*ret->secret)
        return err_set(err, ERR_UNAUTHENTICATED,
                       "%s: profile '%s' has no aws_access_key_id and aws_secret_access_key; add them, or name another profile",
                       path, profile);
    return 0;
}

/* "PATH#profile", the profile being optional. */
static int from_named_file(const char *text, struct s3_credentials *ret, struct err *err) {
    char path[PATH_BYTES];
    if (!str_copy(path, sizeof path, text))
        return err_set(err, ERR_RANGE, "the path of a credentials file is too long");
    char *hash = strrchr(path, '#');
    if (hash)
        *hash = '\0';
    return from_file(path, hash ? hash + 1 : "default", ret, err);
}

static int from_systemd(const char *name, struct s3_credentials *ret, struct err *err) {
    char path[PATH_BYTES];
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    if (!dir)
        return err_set(err, ERR_UNAUTHENTICATED,
                       "credentials systemd:%s: CREDENTIALS_DIRECTORY is not set; add LoadCredential=%s:FILE to the unit", name,
                       name);
    if (strchr(name, '/') || !str_format(path, sizeof path, "%s/%s", dir, name))
        return err_set(err, ERR_INVALID, "credentials systemd:%.100s: expected the plain name of a credential", name);
    return from_named_file(path, ret, err);
}

static int from_chain(struct s3_credentials *ret, struct err *err) {
    char path[PATH_BYTES];
    const char *named = getenv("AWS_SHARED_CREDENTIALS_FILE"), *home = getenv("HOME"), *profile = getenv("AWS_PROFILE");
    int rc = from_environment(ret, err);
    if (rc != ERR_NOT_FOUND)
        return rc;
    bool ok =
        named && *named ? str_copy(path, sizeof path, named) : home && str_format(path, sizeof path, "%s/.aws/credentials", home);
    if (ok && fsio_exists(path))
        return from_file(path, profile && *profile ? profile : "default", ret, err);
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    if (!disabled || strcasecmp(disabled, "true") != 0) {
        ret->remote = true;
        return 0;
    }
    return err_set(err, ERR_UNAUTHENTICATED,
                   "no credentials: neither AWS_ACCESS_KEY_ID nor %s is there; set them, name credentials: file:PATH#profile, or "
                   "set anonymous: true for a public bucket",
                   ok ? path : "a shared credentials file");
}

int s3_credentials_load(const char *spec, struct s3_credentials *ret, struct err *err) {
    *ret = (struct s3_credentials){0};
    if (!spec)
        return from_chain(ret, err);
    if (!strcmp(spec, "env")) {
        int rc = from_environment(ret, err);
        return rc == ERR_NOT_FOUND
                   ? err_set(err, ERR_UNAUTHENTICATED, "credentials env: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
                   : rc;
    }
    if (str_starts(spec, "file:"))
        return from_named_file(spec + strlen("file:"), ret, err);
    if (str_starts(spec, "systemd:"))
        return from_systemd(spec + strlen("systemd:"), ret, err);
    if (!strcmp(spec, "imds")) {
        ret->remote = true;
        return 0;
    }
    return err_set(err, ERR_INVALID, "credentials '%.100s': expected env, imds, file:PATH#profile or systemd:NAME", spec);
}
