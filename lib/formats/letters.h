/* letters: the two ways in which Unicode writes letters with marks: é as one character, as most systems and keyboards do (NFC), or
 * as an e and the mark behind it, as macOS writes names of files (NFD). Names that are compared are brought into one of them; text
 * that is no UTF-8 stays as it is. Any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The text with each such letter as one character, and as a letter and its marks. False: it does not fit. */
bool letters_joined(const char *text, char *ret, size_t size);
bool letters_apart(const char *text, char *ret, size_t size);
/* True if the file is there, under this name or under that of the other way, which path then receives. */
bool letters_find(char *path, size_t size);
