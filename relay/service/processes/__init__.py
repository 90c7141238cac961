"""A relay in several processes: a supervisor, which starts and ends them and shows their status as one."""
