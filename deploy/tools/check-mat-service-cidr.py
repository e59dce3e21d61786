#!/usr/bin/env python3
"""check-mat-service-cidr.py VALUES... [--site-config CORE]: BMC networks against the cluster's ServiceCIDR.

As machine-a-tron's script of this name, with its arguments, variables (SCALE_SERVICE_CIDRS, SCALE_BMC_PREFIXES) and
exit codes. `bmcsim preflight service-cidr` checks more.
"""

import sys

try:
    from bmcsim.cli.preflight import check_mat_service_cidr
except ImportError as error:
    sys.exit(f"check-mat-service-cidr.py: needs bmcsim: pip install bmcsim ({error})")

if __name__ == "__main__":
    sys.exit(check_mat_service_cidr(sys.argv[1:]))
