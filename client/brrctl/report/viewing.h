/* viewing: a recording with marks that the daemon shows on a page (Admin.View). One thread. */
#pragma once

enum { VIEWING_TEXT = 64 };

struct viewing;
struct viewing *viewing_new(const char *recording, struct err *err); /* NULL after an error */
void viewing_free(struct viewing *v);                                /* NULL is fine */
/* Adds a mark, in seconds of file time; returns room for its text, of VIEWING_TEXT bytes. */
char *viewing_mark(struct viewing *v, double onset_s, double end_s);
/* Answers of readers on the page are saved in the folder of this review, under this path of the recording. Both are borrowed. */
void viewing_answers(struct viewing *v, char *folder, char *relative);
void viewing_at(struct viewing *v, double at_s); /* the page opens there */
/* Prints the address of the page. Returns an exit code. */
int viewing_show(const struct arguments *o, struct viewing *v);
