/* token: bearer tokens and the roles they carry. A tokens file is text: one token a line,
 *
 *     role name sha256-of-token [all] [answer] [proxy] [names=PATTERN,…] [until=YYYY-MM-DD[THH:MMZ]]
 *
 * with role read, stream, submit or admin (each includes those before it) or `revoked`. `all`: its owner sees the streams of every
 * caller. `answer`: its owner answers alarms, as the role admin does. `names=`: only those of beds with these names.
 * `proxy`: its owner signs people in, and names the person for whom it asks. Empty lines
 * and lines that begin with '#' are comments. The file holds digests only; the tokens themselves stay with their owners. A table is
 * immutable: any thread. */
#pragma once

#include "base/base.h"

/* ROLE_NONE: no access. */
enum role { ROLE_NONE, ROLE_READ, ROLE_STREAM, ROLE_SUBMIT, ROLE_ADMIN };

/* "none", "read", "stream", "submit", "admin". */
const char *role_name(enum role role);

enum { TOKEN_NAME_SIZE = 64, TOKEN_NAMES_SIZE = 128, TOKEN_SIZE = 72, TOKEN_DIGEST = 32, TOKEN_HEX_SIZE = 65, TOKENS_MAX = 4096 };
/* Longest tokens file in bytes, and the rights that its mode must not grant (fsio_check_mode). */
enum { TOKENS_FILE_MAX = 1 << 20, TOKENS_FILE_FORBIDDEN = 0027 };
enum token_result { TOKEN_VALID, TOKEN_UNKNOWN, TOKEN_REVOKED, TOKEN_EXPIRED };

/* One line of the file. */
struct token {
    char name[TOKEN_NAME_SIZE];   /* letters, digits and . _ - @ */
    enum role role;               /* ROLE_NONE: revoked */
    bool all;                     /* sees the streams of all callers */
    bool answer;                  /* answers alarms */
    bool proxy;                   /* names the person for whom it asks */
    char names[TOKEN_NAMES_SIZE]; /* of beds, as token_names_match takes them; "": any */
    int64_t until_ms;             /* the token is valid before this time of day; 0 = no expiry */
    unsigned char digest[TOKEN_DIGEST];
    bool vanished; /* the file lists it no longer, and has not settled (tokens_reparse) */
};

struct tokens;
/* Parses the text of a tokens file, which is modified; path: its file name, for errors, which name the line. `previous` may be
 * NULL; its tokens that the text no longer lists are reported as revoked. */
int tokens_parse(char *text, const char *path, const struct tokens *previous, struct tokens **ret, struct err *err);
/* The same for a file that is read again: a text without a final line feed, which may be half of a file, or without a valid token
 * is INVALID. A line marked `revoked` counts at once; a token whose line has vanished stays as it was until the file has settled,
 * and is revoked then: an editor or a copy may show a file that is not whole. */
int tokens_reparse(char *text, const char *path, const struct tokens *previous, bool settled, struct tokens **ret, struct err *err);
void tokens_free(struct tokens *tokens);
/* True if a bed's name matches one of the names, which are fnmatch patterns with commas between them, or if there are none (""). */
bool token_names_match(const char *names, const char *bed);
/* Which beds somebody sees. */
struct token_sight {
    bool all;
    const char *principal; /* the name of the caller; borrowed, as names */
    const char *names;     /* as token_names_match takes them; "" or NULL: there are none */
};
/* True with `all`; else of a caller with names, if the name of the bed is among them, whoever streams it; of one without, if this
 * principal streams it, whose bed may have no name. What belongs to no bed ("") and nobody ("") needs `all`. */
bool token_sees_bed(const struct token_sight *sight, const char *principal, const char *bed);
/* True if "YYYY-MM-DD", the last day, or "YYYY-MM-DDTHH:MMZ" (UTC) is such an end; *ret_ms: the first moment after it. */
bool token_read_until(const char *text, int64_t *ret_ms);
/* True if the token of this name is valid at that time of day; *ret is the last line of that name. */
bool tokens_named(const struct tokens *tokens, const char *name, int64_t now_ms, struct token *ret);
/* Whether a valid token with the role stream or more has this bed among its names, of which it must have some: 1: one of this name;
 * 0: others alone; -1: none. */
int tokens_name_bed(const struct tokens *tokens, const char *name, const char *bed, int64_t now_ms);
/* Number of tokens that are not revoked. */
size_t tokens_count(const struct tokens *tokens);
/* Number of those whose lines have vanished. */
size_t tokens_vanished(const struct tokens *tokens);
/* Looks up the token with this digest at the time of day now_ms; *ret is filled unless the token is unknown. Every digest of the
 * table is compared in constant time, so that the duration reveals nothing. */
enum token_result tokens_find(const struct tokens *tokens, const unsigned char digest[TOKEN_DIGEST], int64_t now_ms,
                              struct token *ret);

/* SHA-256 of a token's text. INTERNAL if the library fails. */
int token_digest(const void *text, size_t len, unsigned char ret[TOKEN_DIGEST], struct err *err);
/* A new random token of 256 bits ("brr_" and 64 hex digits) and the hex digest for the file. */
int token_make(char ret_token[TOKEN_SIZE], char ret_hex[TOKEN_HEX_SIZE], struct err *err);
/* INVALID, with the allowed characters, unless the text may be a token's name. */
int token_check_name(const char *name, struct err *err);
/* Contents of a line of the file; until: "YYYY-MM-DD", the last valid day; until, names: or NULL. */
struct token_request {
    const char *role, *name, *until, *names;
    bool all, answer, proxy;
};
/* INVALID unless role, name and day may stand in the file. *ret_until_ms (may be NULL): the time of day at which the token ends; 0
 * = never. */
int token_check_request(const struct token_request *request, int64_t *ret_until_ms, struct err *err);
