"""A relay in several processes: a supervisor starts and ends them and shows their status as one."""
