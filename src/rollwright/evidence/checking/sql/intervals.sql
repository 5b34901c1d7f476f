-- Intervals of evaluations.
-- Each question gives a place, what is wrong there, and what was expected. They are parted by lines of dashes.

------
SELECT concat('evaluations ', evaluation, ' ', metric, ' ', labels::TEXT), concat('its value ', value,
    ' lies outside its interval ', low, ' to ', high), 'within' FROM evaluations
  WHERE value IS NOT NULL AND low IS NOT NULL AND high IS NOT NULL AND (low > high OR value < low - 1e-9 OR value > high + 1e-9)
