"""bmcsim: thousands of Redfish BMCs in one asyncio process."""

__version__ = "0.1.0"
