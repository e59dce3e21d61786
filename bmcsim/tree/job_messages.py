"""What an iDRAC says of jobs, in our own words: machine/jobs and redfish/oem/dell send it, its registry lists it."""

from bmcsim.tree.profile import VendorMessage

SCHEDULED = VendorMessage("IDRAC.2.7.JCP001", "Task successfully scheduled.", "OK")
RUNNING = VendorMessage("IDRAC.2.7.PR20", "Job in progress.", "OK")
COMPLETED = VendorMessage("IDRAC.2.7.PR19", "Job completed successfully.", "OK")
FAILED = VendorMessage("IDRAC.2.7.JCP003", "The job did not complete successfully.", "Warning")
NOTHING_PENDING = VendorMessage(
    "IDRAC.2.7.SYS023", "No configuration changes are pending.", "Warning", "Set values first, then create a job."
)
NO_SUCH_JOB = VendorMessage(
    "IDRAC.2.7.JCP022", "There is no job with this id in the job queue.", "Warning", "Check the id of the job."
)
CANNOT_DELETE = VendorMessage(
    "IDRAC.2.7.JCP015", "A running job cannot be deleted.", "Warning", "Wait until the job is over."
)

EVERY = (SCHEDULED, RUNNING, COMPLETED, FAILED, NOTHING_PENDING, NO_SUCH_JOB, CANNOT_DELETE)
