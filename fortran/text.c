#include "fortran/text.h"

#include <stdlib.h>
#include <string.h>

char* fortran_text(FortranReport* report, const CFI_cdesc_t* characters) {
  if (characters == NULL) return NULL;
  const char* from = characters->base_addr;
  size_t length = characters->elem_len;
  while (length > 0 && from[length - 1] == ' ') --length;
  char* text = malloc(length + 1);
  if (text == NULL) {
    fortran_fault(report, hymnResourceError, "no memory for a text of %zu characters", length);
    return NULL;
  }
  if (length > 0) memcpy(text, from, length);
  text[length] = '\0';
  return text;
}
