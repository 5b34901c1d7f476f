// Before anything is drawn, so that no page flashes in the other theme.
"use strict";
try {
  const theme = localStorage.getItem("rollwright-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (error) {
  // No storage: the system's theme it is.
}
