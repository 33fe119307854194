"""Programs that outlive the control plane and are found again by the next one."""
